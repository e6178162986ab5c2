//! What scenario `preload` takes.

use clap::Args;

use super::Scale;
use super::case::{FileSystem, Way};

/// Which boots, how many.
#[derive(Debug, Args)]
pub(crate) struct PreloadArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// One size, one boot each: to see that all is well, not to learn figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where the file lies
    #[arg(
        long,
        value_name = "FS",
        value_delimiter = ',',
        value_enum,
        default_values_t = [FileSystem::Ubifs]
    )]
    pub(crate) fs: Vec<FileSystem>,
    /// Boots of each case; figures are medians over them [default: 5; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) boots: Option<u32>,
    /// Sizes of the file in bytes [default: 1 to 4 MiB in steps of 512 KiB; quick: 1048576]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = file_size)]
    pub(crate) sizes: Vec<usize>,
    /// Only these ways
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_enum)]
    pub(crate) ways: Vec<Way>,
}

impl PreloadArguments {
    /// What was said, and for the rest what `--quick` or its absence means.
    pub(crate) fn scale(&self) -> Scale {
        let steps = if self.quick { 2..=2 } else { 2..=8 };
        let mut sizes = self.sizes.clone();
        if sizes.is_empty() {
            sizes = steps.map(|step| step * (512 << 10)).collect();
        }
        sizes.sort_unstable();
        sizes.dedup();
        let mut file_systems = self.fs.clone();
        file_systems.dedup();
        Scale {
            file_systems,
            boots: self.boots.unwrap_or(if self.quick { 1 } else { 5 }),
            sizes,
            ways: Some(self.ways.clone())
                .filter(|said| !said.is_empty())
                .unwrap_or_else(|| Way::ALL.to_vec()),
        }
    }
}

fn file_size(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    if !(4096..=4 << 20).contains(&bytes) {
        return Err("a file has 4096 to 4194304 bytes: the board's flash holds no more".to_owned());
    }
    Ok(bytes)
}
