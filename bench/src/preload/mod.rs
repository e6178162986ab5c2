//! Scenario `preload`: the paper's experiment on an emulated board, a file read from slow flash
//! beside a program that takes all CPU.
//!
//! Each run is a boot of its own. Process 1 prints `AAA`, reads ahead or not, and begins
//! multitasking; the test program reads one file and prints `BBB`; the time between the lines is
//! taken here. Rounds go over all sizes and, within a size, over all ways, so that what is compared
//! was measured next to each other. `board` is the machine, `image` its flash, `bench/guest` what
//! runs on it.

mod application;
pub(crate) mod args;
mod bars;
mod board;
mod boot;
mod case;
mod guest;
mod image;
mod ratios;
mod report;
mod scene;
mod series;
mod table;
mod transcript;

use self::args::PreloadArguments;
use self::case::{FileSystem, Way};
use self::guest::Guest;
use self::report::Report;
use self::scene::Scene;
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::machine;

pub(crate) use self::table::render;

/// How much is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) file_systems: Vec<FileSystem>,
    pub(crate) boots: u32,
    pub(crate) sizes: Vec<usize>,
    pub(crate) ways: Vec<Way>,
}

impl Scale {
    /// A budget smaller than the need is tried where the need is largest.
    fn wants_for_file(&self, way: Way, size: usize) -> bool {
        !way.is_of_application()
            && self.ways.contains(&way)
            && (way != Way::Budget || self.sizes.iter().all(|other| *other <= size))
    }
}

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &PreloadArguments) -> Result<Report, BenchError> {
    machine::look_at_sources();
    let lookout = Lookout::on_signals()?;
    let load_before = machine::load();
    let guest = Guest::find()?;
    let scale = arguments.scale();
    let folder = tempfile::Builder::new().prefix("hythe-bench-").tempdir()?;
    let mut scene = Scene::set(&scale, &guest, folder.path(), &lookout)?;
    scene.play(scale.boots, &guest, folder.path(), &lookout)?;
    Report::new(&scale, scene, load_before)
}
