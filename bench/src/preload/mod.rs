//! Scenario `preload`: the paper's experiment on an emulated board, a file read from slow flash beside a program that takes all CPU.
//!
//! Each run is a boot of its own. Process 1 prints `AAA`, reads ahead or not, and begins multitasking; the test program reads one file
//! and prints `BBB`; the time between the lines is taken here. Rounds go over all sizes and, within a size, over all ways, so that what
//! is compared was measured next to each other. `board` is the machine, `image` its flash, `bench/guest` what runs on it.

mod bars;
mod board;
mod boot;
mod case;
mod error;
mod guest;
mod image;
mod ratios;
mod report;
mod series;
mod table;
mod transcript;

use std::path::Path;

use indicatif::ProgressBar;

use self::board::Boot;
use self::guest::Guest;
use self::image::Image;
use self::report::Report;
use self::series::Series;
use crate::args::PreloadArguments;
use crate::error::BenchError;
use crate::lookout::Lookout;
use crate::machine;

pub(crate) use self::case::{FileSystem, Way};
pub(crate) use self::error::BootError;
pub(crate) use self::table::render;

/// More boots than this that come to nothing say that the rest will, too.
const MOST_FAILURES: usize = 3;

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
    fn wants(&self, way: Way, size: usize) -> bool {
        self.ways.contains(&way)
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
    let mut scene = Scene::set(&scale, folder.path())?;
    scene.play(&guest, scale.boots, folder.path(), &lookout)?;
    Report::new(&scale, &scene.series, scene.failures, load_before)
}

/// Everything that is booted, and what came of it.
struct Scene {
    images: Vec<Image>,
    series: Vec<Series>,
    failures: Vec<String>,
}

impl Scene {
    fn set(scale: &Scale, folder: &Path) -> Result<Self, BootError> {
        let mut scene = Self {
            images: Vec::new(),
            series: Vec::new(),
            failures: Vec::new(),
        };
        for &file_system in &scale.file_systems {
            for &size in &scale.sizes {
                let image = Image::make(folder, file_system, size)?;
                let ways = Way::ALL.into_iter().filter(|way| scale.wants(*way, size));
                let series = ways.map(|way| Series::new(file_system, way, size));
                scene.series.extend(series);
                scene.images.push(image);
            }
        }
        Ok(scene)
    }

    /// A boot that fails is told at once and counted; the figures are then not valid, but there.
    fn play(
        &mut self,
        guest: &Guest,
        boots: u32,
        folder: &Path,
        lookout: &Lookout,
    ) -> Result<(), BenchError> {
        let bar = ProgressBar::new(self.series.len() as u64 * u64::from(boots));
        for _ in 0..boots {
            for series in &mut self.series {
                let mut images = self.images.iter();
                let Some(image) = images.find(|image| series.is_of(image)) else {
                    continue;
                };
                let boot = Boot {
                    guest,
                    image,
                    way: series.way,
                };
                match boot::run(&boot, folder, lookout) {
                    Ok(outcome) => series.add(outcome),
                    Err(error @ BenchError::Boot(_)) => {
                        let error = error.of(series, series.size);
                        if self.failures.len() + 1 >= MOST_FAILURES || boots == 1 {
                            return Err(error);
                        }
                        bar.suspend(|| eprintln!("hythe-bench: {error}"));
                        let text = error.to_string();
                        let first = text.lines().next().unwrap_or_default();
                        self.failures.push(first.to_owned());
                    }
                    Err(error) => return Err(error),
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(())
    }
}
