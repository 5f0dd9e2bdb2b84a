//! Style and scripts. Their names contain a digest, so that a browser may keep them.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

use crate::app::App;
use crate::problem::Problem;

/// A file that pages load.
struct Asset {
    /// Its address.
    path: String,
    kind: &'static str,
    text: &'static str,
}

/// Name, extension, media type and content.
const FILES: [(&str, &str, &str, &str); 5] = [
    (
        "style",
        "css",
        "text/css",
        include_str!("../assets/style.css"),
    ),
    (
        "page",
        "js",
        "text/javascript",
        include_str!("../assets/page.js"),
    ),
    (
        "search",
        "js",
        "text/javascript",
        include_str!("../assets/search.js"),
    ),
    (
        "conversation",
        "js",
        "text/javascript",
        include_str!("../assets/conversation.js"),
    ),
    (
        "icon",
        "svg",
        "image/svg+xml",
        include_str!("../assets/icon.svg"),
    ),
];

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let files = FILES.iter();
    let asset = |&(name, ending, kind, text): &(&str, &str, &'static str, &'static str)| {
        let digest = Sha256::digest(text);
        let digest: String = digest
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Asset {
            path: format!("/assets/{name}-{digest}.{ending}"),
            kind,
            text,
        }
    };
    files.map(asset).collect()
});

/// Returns the address of an asset, by its place in [`FILES`].
fn path(at: usize) -> &'static str {
    ASSETS.get(at).map_or("", |asset| asset.path.as_str())
}

/// Addresses of the assets, for templates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AssetPaths {
    pub(crate) style: &'static str,
    pub(crate) page: &'static str,
    pub(crate) search: &'static str,
    pub(crate) conversation: &'static str,
    pub(crate) icon: &'static str,
}

impl AssetPaths {
    pub(crate) fn new() -> Self {
        AssetPaths {
            style: path(0),
            page: path(1),
            search: path(2),
            conversation: path(3),
            icon: path(4),
        }
    }
}

pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new().route("/assets/{name}", get(asset))
}

async fn asset(Path(name): Path<String>) -> Result<Response, Problem> {
    let mut assets = ASSETS.iter();
    let asset = assets.find(|asset| asset.path.strip_prefix("/assets/") == Some(name.as_str()));
    let asset = asset.ok_or_else(Problem::no_page)?;
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, "private, max-age=86400, immutable"),
    ];
    Ok((headers, asset.text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_small_and_load_nothing() {
        let scripts = FILES.iter().filter(|(_, ending, ..)| *ending == "js");
        let bytes: usize = scripts.clone().map(|(.., text)| text.len()).sum();
        assert!(bytes <= 20 << 10, "{bytes}");
        for (name, .., text) in FILES {
            for forbidden in ["http:", "https:", "import ", "eval(", "new Function"] {
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(forbidden), "{name} has {forbidden}");
            }
        }
    }
}
