//! The settings of the hub: `[hub]`.

use std::path::PathBuf;

use clap::ValueEnum;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, absolute_path, error_at, in_file_order, unknown_key};

/// The hub that receives the logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "hub"), allow(dead_code))]
pub(crate) struct HubConfig {
    /// Address of the hub.
    pub(crate) url: Option<String>,
    /// File with this machine's token.
    pub(crate) token_file: Option<PathBuf>,
    /// The policy for masking.
    pub(crate) mask: Option<MaskArg>,
}

/// The policy for masking before logs leave the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MaskArg {
    /// Keys, tokens and passwords
    Secrets,
    /// Nothing
    None,
}

const KEYS: [&str; 3] = ["url", "token-file", "mask"];

pub(super) fn parse_hub(table: &DeTable<'_>) -> Result<HubConfig, ConfigError> {
    let mut hub = HubConfig::default();
    for (key, value) in in_file_order(table) {
        let name = key.get_ref().as_ref();
        if !KEYS.contains(&name) {
            return Err(unknown_key(key, name, "[hub]", &KEYS));
        }
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            _ => "",
        };
        match name {
            "url" if text.starts_with("http://") || text.starts_with("https://") => {
                hub.url = Some(text.to_owned());
            }
            "url" => {
                let one = "`url` must be an address: \"https://hub.example\"";
                return Err(error_at(value, one));
            }
            "token-file" => {
                let path = absolute_path(text).ok_or_else(|| {
                    let one =
                        "`token-file` must be an absolute path: \"~/.config/annals/hub-token\"";
                    error_at(value, one)
                })?;
                hub.token_file = Some(path);
            }
            _ => {
                let mask = MaskArg::from_str(text, false);
                let one = "`mask` must be \"secrets\" or \"none\"";
                hub.mask = Some(mask.map_err(|_| error_at(value, one))?);
            }
        }
    }
    Ok(hub)
}
