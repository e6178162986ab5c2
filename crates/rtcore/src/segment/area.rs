//! Where in the area of a core's segments a new one is put. Decides alone: never reads a table.

/// A run of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pages {
    pub(super) first: u64,
    pub(super) count: u64,
}

impl Pages {
    const fn end(self) -> u64 {
        self.first + self.count
    }
}

/// The area: where it begins in memory that both sides see, and how large it is, in pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Area {
    /// By it, alignment is counted: the memory itself is aligned to more than any segment.
    pub(super) origin: u64,
    pub(super) count: u64,
    /// Every segment begins at, and takes, a multiple of so many pages: one page of Linux.
    pub(super) unit: u64,
}

impl Area {
    /// The free runs, in order, beside those that are taken (which may be in any order, and
    /// nonsense).
    pub(super) fn free(&self, taken: &[Pages]) -> Vec<Pages> {
        let mut taken: Vec<Pages> = taken
            .iter()
            .filter(|run| run.first.checked_add(run.count).is_some())
            .copied()
            .collect();
        taken.sort_by_key(|run| run.first);
        let mut free = Vec::new();
        let mut next = 0;
        let end = Pages {
            first: self.count,
            count: 0,
        };
        for run in taken.into_iter().chain([end]) {
            let until = run.first.min(self.count);
            if until > next {
                free.push(Pages {
                    first: next,
                    count: until - next,
                });
            }
            next = next.max(run.end());
        }
        free
    }

    /// A place for so many pages: aligned in memory to the next power of two, so that an MPU can
    /// grant it as one region, if there is such a place; else anywhere. First fit.
    pub(super) fn place(&self, taken: &[Pages], count: u64) -> Option<Pages> {
        let count = count.next_multiple_of(self.unit);
        let free = self.free(taken);
        let fit = |align: u64| {
            free.iter().find_map(|run| {
                let first = (self.origin + run.first).next_multiple_of(align) - self.origin;
                let end = first.checked_add(count)?;
                (end <= run.end()).then_some(Pages { first, count })
            })
        };
        let power = count.checked_next_power_of_two()?;
        fit(power).or_else(|| fit(self.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Area = Area {
        origin: 2688,
        count: 1408,
        unit: 1,
    };

    fn pages(first: u64, count: u64) -> Pages {
        Pages { first, count }
    }

    #[test]
    fn place_is_aligned_where_one_is_free() {
        // As on mps2: 4 MiB stand at 12 MiB of the memory.
        assert_eq!(AREA.place(&[], 1024), Some(pages(3072 - 2688, 1024)));
        assert_eq!(AREA.place(&[], 1), Some(pages(0, 1)));
        // Another of that size has a place, too, but no aligned one: none.
        let taken = [pages(384, 1024)];
        assert_eq!(AREA.place(&taken, 1024), None);
        assert_eq!(AREA.place(&taken, 256), Some(pages(128, 256)));
        assert_eq!(AREA.place(&taken, 300), Some(pages(0, 300)));
        assert_eq!(AREA.place(&[], 1408), Some(pages(0, 1408)));
        assert_eq!(AREA.place(&[], 1409), None);
        assert_eq!(AREA.place(&[], u64::MAX - 1), None);
    }

    #[test]
    fn what_is_free_is_what_is_not_taken_whatever_the_order() {
        let taken = [pages(10, 5), pages(0, 2), pages(12, 20), pages(1400, 900)];
        assert_eq!(AREA.free(&taken), [pages(2, 8), pages(32, 1368)]);
        assert_eq!(AREA.free(&[pages(0, 1408)]), []);
        assert_eq!(AREA.free(&[pages(u64::MAX, 2)]), [pages(0, 1408)]);
        assert_eq!(AREA.free(&[pages(2000, 2)]), [pages(0, 1408)]);
    }

    #[test]
    fn larger_pages_are_not_shared() {
        let area = Area { unit: 16, ..AREA };
        assert_eq!(area.place(&[pages(0, 16)], 1), Some(pages(16, 16)));
    }
}
