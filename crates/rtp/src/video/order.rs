//! The order in which pictures are shown, told from the order in which they are decoded.
//!
//! The process of H.264 C.4.5.3 and H.265 C.5.2 ("bumping"): as soon as more pictures wait than may
//! be reordered, the one with the least order count is shown.

use super::slice::Picture;

/// Pictures whose place in display order is not known yet.
#[derive(Debug, Default)]
pub struct DisplayOrder {
    waiting: Vec<Waiting>,
    decoded: u64,
    shown: u64,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    order: i64,
    decoding_index: u64,
}

/// A picture whose places are both known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// In decoding order, from 0 on.
    pub decoding_index: u64,
    /// In display order, from 0 on.
    pub display_index: u64,
}

impl DisplayOrder {
    /// Takes the next picture in decoding order, and tells of those that are placed by it.
    pub fn take(&mut self, picture: &Picture, placed: &mut impl FnMut(Placed)) {
        if picture.restarts {
            self.finish(placed);
        }
        self.waiting.push(Waiting {
            order: picture.order,
            decoding_index: self.decoded,
        });
        self.decoded += 1;
        while self.waiting.len() > picture.reordered_max {
            self.show(placed);
        }
    }

    /// Places all that wait.
    pub fn finish(&mut self, placed: &mut impl FnMut(Placed)) {
        while !self.waiting.is_empty() {
            self.show(placed);
        }
    }

    fn show(&mut self, placed: &mut impl FnMut(Placed)) {
        let orders = self.waiting.iter().enumerate();
        let first = orders.min_by_key(|(_, waiting)| (waiting.order, waiting.decoding_index));
        let Some((index, _)) = first else { return };
        placed(Placed {
            decoding_index: self.waiting.swap_remove(index).decoding_index,
            display_index: self.shown,
        });
        self.shown += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn display(orders: &[(i64, bool)], reordered_max: usize) -> Vec<u64> {
        let mut places = vec![u64::MAX; orders.len()];
        let mut order = DisplayOrder::default();
        let mut placed = |placed: Placed| {
            places[placed.decoding_index as usize] = placed.display_index;
        };
        for &(count, restarts) in orders {
            let picture = Picture {
                order: count,
                restarts,
                reordered_max,
            };
            order.take(&picture, &mut placed);
        }
        order.finish(&mut placed);
        places
    }

    #[test]
    fn pyramid_is_put_in_order() {
        let orders = [(0, true), (8, false), (4, false), (2, false), (6, false)];
        assert_eq!(display(&orders, 2), [0, 4, 2, 1, 3]);
        assert_eq!(display(&orders, 16), [0, 4, 2, 1, 3]);
    }

    #[test]
    fn restart_shows_what_waits_first() {
        let orders = [(0, true), (4, false), (2, false), (0, true), (2, false)];
        assert_eq!(display(&orders, 4), [0, 2, 1, 3, 4]);
    }

    #[test]
    fn every_picture_gets_one_place_whatever_the_counts() {
        for reordered_max in [0, 1, 5] {
            let mut places = display(
                &[(5, false), (5, false), (-9, false), (i64::MAX, true)],
                reordered_max,
            );
            places.sort_unstable();
            assert_eq!(places, [0, 1, 2, 3]);
        }
    }
}
