//! Everything that is booted, in which order, and what came of it.
//!
//! Never throws away what was measured: one boot that came to nothing is told at once and counted,
//! a run that was stopped shows what it has, and both make the document invalid.

use std::path::Path;

use indicatif::ProgressBar;

use super::Scale;
use super::application::{Application, Recorded};
use super::board::Boot;
use super::boot;
use super::case::{FileSystem, Way};
use super::guest::Guest;
use super::image::Image;
use super::series::Series;
use crate::error::{BenchError, BootError};
use crate::lookout::Lookout;

/// So many boots that came to nothing say that the rest will, too.
const MOST_FAILURES: usize = 3;

/// Images, and the series of boots that read from them.
#[derive(Debug, Default)]
pub(super) struct Scene {
    pub(super) images: Vec<Image>,
    pub(super) series: Vec<Series>,
    pub(super) recorded: Vec<Recorded>,
    /// Boots that came to nothing.
    pub(super) failures: Vec<String>,
    /// Cases left out, and why.
    pub(super) skipped: Vec<String>,
}

impl Scene {
    /// Makes every image, and records the real program.
    pub(super) fn set(
        scale: &Scale,
        guest: &Guest,
        folder: &Path,
        lookout: &Lookout,
    ) -> Result<Self, BenchError> {
        let mut scene = Self::default();
        for &file_system in &scale.file_systems {
            for &size in &scale.sizes {
                let ways = Way::ALL.into_iter();
                let ways = ways.filter(|way| scale.wants_for_file(*way, size));
                let before = scene.series.len();
                let series = ways.map(|way| Series::new(file_system, way, size));
                scene.series.extend(series);
                if scene.series.len() > before {
                    scene
                        .images
                        .push(Image::of_file(folder, file_system, size)?);
                }
            }
            scene.add_application(scale, file_system, guest, folder, lookout)?;
        }
        if scene.series.is_empty() {
            let why = format!("nothing is left to measure: {}", scene.skipped.join("; "));
            return Err(BenchError::WrongUse(why));
        }
        Ok(scene)
    }

    fn add_application(
        &mut self,
        scale: &Scale,
        file_system: FileSystem,
        guest: &Guest,
        folder: &Path,
        lookout: &Lookout,
    ) -> Result<(), BenchError> {
        let ways = scale.ways.iter().filter(|way| way.is_of_application());
        let ways: Vec<Way> = ways.copied().collect();
        if ways.is_empty() {
            return Ok(());
        }
        match Application::prepare(guest, file_system, folder, lookout) {
            Ok(Application {
                image,
                bytes,
                recorded,
            }) => {
                let series = ways.into_iter();
                let series = series.map(|way| Series::new(file_system, way, bytes));
                self.series.extend(series);
                self.images.push(image);
                self.recorded.push(recorded);
                Ok(())
            }
            Err(BenchError::Boot(error)) if matches!(*error, BootError::Missing { .. }) => {
                self.skipped
                    .push(format!("application/{file_system}: {error}"));
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Boots everything so often, or until a signal asks to stop.
    pub(super) fn play(
        &mut self,
        boots: u32,
        guest: &Guest,
        folder: &Path,
        lookout: &Lookout,
    ) -> Result<(), BenchError> {
        let played = self.play_rounds(boots, guest, folder, lookout);
        self.series.retain(|series| series.boots() > 0);
        match played {
            Err(BenchError::Stopped) if !self.series.is_empty() => {
                self.failures.push(BenchError::Stopped.to_string());
                Ok(())
            }
            played => played,
        }
    }

    /// Rounds go over all series, so that what is compared was measured next to each other.
    fn play_rounds(
        &mut self,
        boots: u32,
        guest: &Guest,
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
                    recorder: None,
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
