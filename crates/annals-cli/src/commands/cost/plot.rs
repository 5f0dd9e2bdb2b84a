//! `annals cost --plot`: a report as a chart.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use annals::cost::CostReport;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::super::output_file::{RawStdout, refuse_existing, refuse_roots, write_file};
use crate::context::Context;
#[cfg(feature = "png")]
use annals_render::chart::Fonts;
use annals_render::chart::{Chart, Format, Size};
use annals_render::size;
use annals_render::style::{DIM, PLAIN, paint};

/// Options of a chart.
#[derive(Debug, Args)]
pub(super) struct PlotArgs {
    #[cfg_attr(
        feature = "png",
        doc = "Draw the report as a chart: NAME.svg, NAME.png, or `-` for standard output"
    )]
    #[cfg_attr(
        not(feature = "png"),
        doc = "Draw the report as a chart: NAME.svg, or `-` for standard output"
    )]
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Format of the chart [default: by file extension, svg on standard output]
    #[arg(long, value_name = "FORMAT", value_enum, requires = "plot")]
    plot_format: Option<FormatArg>,
    /// Size of the chart; PNG files have twice as many pixels
    #[arg(long, value_name = "WIDTHxHEIGHT", default_value_t = Size::default(), requires = "plot")]
    plot_size: Size,
    /// Overwrite an existing file
    #[arg(long, requires = "plot")]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormatArg {
    Svg,
    #[cfg(feature = "png")]
    Png,
}

/// A chart to draw.
pub(super) struct Plot {
    /// Target file; `None` is standard output.
    path: Option<PathBuf>,
    format: Format,
    size: Size,
    force: bool,
}

#[derive(Serialize)]
struct PlotJson {
    files: [WrittenChart; 1],
}

/// A file that was written.
#[derive(Serialize)]
struct WrittenChart {
    path: PathBuf,
    bytes: u64,
}

impl PlotArgs {
    /// Returns the chart to draw, if one is asked for. Checks the target before anything is read.
    pub(super) fn plot(&self, csv: bool, context: &Context) -> Result<Option<Plot>> {
        let Some(path) = &self.plot else {
            return Ok(None);
        };
        if csv {
            bail!("--csv and --plot cannot be used together");
        }
        let path = (path != Path::new("-")).then_some(path);
        let given = self.plot_format.map(|format| match format {
            FormatArg::Svg => Format::Svg,
            #[cfg(feature = "png")]
            FormatArg::Png => Format::Png,
        });
        let named = path.map_or(Some(Format::Svg), |path| Format::from_path(path));
        let format = match (given.or(named), path) {
            (Some(format), _) => format,
            (None, path) => bail!(
                "unsupported chart format: {}; use {}",
                path.map(|path| path.display().to_string())
                    .unwrap_or_default(),
                Format::EXTENSIONS
            ),
        };
        match path {
            Some(path) => {
                refuse_roots(path, context)?;
                refuse_existing(std::slice::from_ref(path), self.force)?;
            }
            #[cfg(feature = "png")]
            None if format == Format::Png && context.out.is_terminal() => {
                bail!("cannot write PNG to a terminal; use --plot NAME.png, or a pipe")
            }
            None if context.json => {
                bail!("cannot write both --json and a chart to standard output")
            }
            None => {}
        }
        Ok(Some(Plot {
            path: path.cloned(),
            format,
            size: self.plot_size,
            force: self.force,
        }))
    }
}

impl Plot {
    /// Draws a report that has rows.
    pub(super) fn write(&self, report: &CostReport, context: &mut Context) -> Result<()> {
        let chart = Chart::from_report(report, &context.clock.zone);
        if chart.bars.is_empty() {
            bail!("nothing to draw: no response has a time; try --by model");
        }
        let drawn = match self.format {
            Format::Svg => chart.svg(self.size).into_bytes(),
            #[cfg(feature = "png")]
            Format::Png => chart.png(self.size, Fonts::load_system_fonts)?,
        };
        let Some(path) = &self.path else {
            return Ok(RawStdout(context).write_all(&drawn)?);
        };
        let (bytes, ()) = write_file(path, self.force, |out| {
            out.write_all(&drawn)
                .and_then(|()| out.flush())
                .map_err(|error| annals::Error::io("write", path, error))
        })?;
        if context.json {
            let path = path.clone();
            let files = [WrittenChart { path, bytes }];
            return Ok(context.out.json(&PlotJson { files })?);
        }
        let what = format!("{}, {}", self.size, size::bytes(bytes));
        context.out.line(format_args!(
            "{}  {}",
            paint(PLAIN, &path.display().to_string()),
            paint(DIM, &what)
        ))?;
        Ok(())
    }
}
