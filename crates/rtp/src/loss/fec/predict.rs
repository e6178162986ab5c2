//! Which losses a code leaves: computed, so that a benchmark can compare what it measures with what
//! the code promises.
//!
//! Packets, parity included, are lost independently with probability `p`. A row, or a column, of
//! `n` packets repairs a lost packet when its `n - 1` others and its parity arrive, so with one
//! direction only, what is left over is exactly `p (1 - (1 - p)^n)`. With both, repairs enable
//! others and no short formula is known; [`residual`] then plays a number of matrices with seeded
//! losses and repairs each until nothing changes ([`Losses::repair`], which knows nothing of
//! packets and so also serves as the oracle of the decoder's tests). Its standard error is about
//! `sqrt(r / (L D M))` times a small factor for clustering, at a residual of `r` over `M` matrices.

use super::{PACKETS_MAX, Protection, SIDE_MAX, Shape};

/// Which packets of a matrix, and which of its parity packets, did not arrive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Losses {
    shape: Shape,
    media: [bool; PACKETS_MAX as usize],
    columns: [bool; SIDE_MAX as usize],
    rows: [bool; SIDE_MAX as usize],
}

impl Losses {
    /// Nothing is lost; parity that `protection` does not have counts as lost.
    #[must_use]
    pub fn none(shape: Shape, protection: Protection) -> Self {
        Self {
            shape,
            media: [false; PACKETS_MAX as usize],
            columns: [!protection.has_columns(); SIDE_MAX as usize],
            rows: [!protection.has_rows(); SIDE_MAX as usize],
        }
    }

    /// Loses the packet at `place`, counted row by row.
    ///
    /// # Panics
    ///
    /// If the matrix has no such place.
    pub fn lose(&mut self, place: usize) {
        assert!(place < self.shape.packets(), "{place} of {:?}", self.shape);
        self.media[place] = true;
    }

    /// Loses the parity of a column.
    ///
    /// # Panics
    ///
    /// If no matrix has that many.
    pub fn lose_column(&mut self, column: usize) {
        self.columns[column] = true;
    }

    /// Loses the parity of a row.
    ///
    /// # Panics
    ///
    /// As [`Self::lose_column`].
    pub fn lose_row(&mut self, row: usize) {
        self.rows[row] = true;
    }

    /// Repairs until nothing changes; the places that stay lost.
    pub fn repair(&mut self) -> impl Iterator<Item = usize> + '_ {
        let (columns, rows) = (self.shape.columns(), self.shape.rows());
        // Every round repairs at least one packet.
        loop {
            let mut changed = false;
            for row in (0..rows).filter(|row| !self.rows[*row]) {
                changed |= repair_line(&mut self.media, row * columns, 1, columns);
            }
            for column in (0..columns).filter(|column| !self.columns[*column]) {
                changed |= repair_line(&mut self.media, column, columns, rows);
            }
            if !changed {
                break;
            }
        }
        (0..self.shape.packets()).filter(|place| self.media[*place])
    }
}

/// Repairs a line of which one packet is lost.
fn repair_line(media: &mut [bool], first: usize, step: usize, count: usize) -> bool {
    let mut lost = (0..count)
        .map(|index| first + index * step)
        .filter(|place| media[*place]);
    let (Some(place), None) = (lost.next(), lost.next()) else {
        return false;
    };
    media[place] = false;
    true
}

/// The share of media packets that stay lost when each packet is lost with probability `loss` (0 to
/// 1). Exact for one direction; for both, the mean over `matrices` matrices of losses chosen by
/// `seed`.
#[must_use]
pub fn residual(shape: Shape, protection: Protection, loss: f64, matrices: u32, seed: u64) -> f64 {
    let line = |packets: usize| loss * (1.0 - (1.0 - loss).powi(packets as i32));
    match protection {
        Protection::Columns => line(shape.rows()),
        Protection::Rows => line(shape.columns()),
        Protection::Both => {
            let mut chance = Chance::new(seed);
            let left: usize = (0..matrices)
                .map(|_| random_losses(shape, loss, &mut chance).repair().count())
                .sum();
            left as f64 / (f64::from(matrices.max(1)) * shape.packets() as f64)
        }
    }
}

fn random_losses(shape: Shape, loss: f64, chance: &mut Chance) -> Losses {
    let mut losses = Losses::none(shape, Protection::Both);
    for place in 0..shape.packets() {
        losses.media[place] = chance.happens(loss);
    }
    for column in 0..shape.columns() {
        losses.columns[column] = chance.happens(loss);
    }
    for row in 0..shape.rows() {
        losses.rows[row] = chance.happens(loss);
    }
    losses
}

/// Seeded random numbers: splitmix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The same numbers for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Something of that probability.
    pub fn happens(&mut self, probability: f64) -> bool {
        // 53 bits are what a float holds exactly.
        ((self.number() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(protection: Protection, lost: &[usize], columns: &[usize], rows: &[usize]) -> usize {
        let mut losses = Losses::none(Shape::new(5, 4).unwrap(), protection);
        lost.iter().for_each(|place| losses.lose(*place));
        columns
            .iter()
            .for_each(|column| losses.lose_column(*column));
        rows.iter().for_each(|row| losses.lose_row(*row));
        losses.repair().count()
    }

    #[test]
    fn lines_repair_one_and_help_each_other() {
        use Protection::{Both, Columns, Rows};
        assert_eq!(left(Columns, &[0, 1, 2, 3, 4], &[], &[]), 0);
        assert_eq!(left(Columns, &[0, 1, 2, 3, 4, 5], &[], &[]), 2);
        assert_eq!(left(Rows, &[0, 5, 10, 15], &[], &[]), 0);
        assert_eq!(left(Rows, &[0, 1, 5], &[], &[]), 2);
        // Four in a square stay; with a fifth elsewhere, that one goes.
        assert_eq!(left(Both, &[0, 2, 10, 12], &[], &[]), 4);
        assert_eq!(left(Both, &[0, 2, 10, 12, 19], &[], &[]), 4);
        assert_eq!(left(Both, &[0, 2, 10], &[], &[]), 0);
        assert_eq!(left(Both, &[0, 2, 10], &[2], &[2]), 3);
    }

    /// Two formulas that know nothing of each other: with its columns' parity lost, both directions
    /// are rows only.
    #[test]
    fn playing_agrees_with_the_formula() {
        let shape = Shape::new(5, 5).unwrap();
        for loss in [0.01, 0.05, 0.2] {
            let mut chance = Chance::new(3);
            let matrices = 40_000;
            let left: usize = (0..matrices)
                .map(|_| {
                    let mut losses = random_losses(shape, loss, &mut chance);
                    losses.columns.fill(true);
                    losses.repair().count()
                })
                .sum();
            let played = left as f64 / (25.0 * f64::from(matrices));
            let exact = residual(shape, Protection::Rows, loss, 0, 0);
            // Five standard errors, taking losses of a row as one.
            let error = 5.0 * (exact * 5.0 / (25.0 * f64::from(matrices))).sqrt();
            assert!((played - exact).abs() < error, "{played} {exact} {error}");
        }
    }

    #[test]
    fn more_loss_leaves_more_and_both_leave_less() {
        let shape = Shape::new(10, 10).unwrap();
        let both = |loss| residual(shape, Protection::Both, loss, 2000, 1);
        assert_eq!(both(0.0), 0.0);
        assert!(both(0.05) < both(0.1) && both(0.1) < both(0.2));
        assert!(both(0.05) < residual(shape, Protection::Columns, 0.05, 0, 0) / 10.0);
        assert_eq!(both(1.0), 1.0);
        assert_eq!(both(0.1), both(0.1), "the seed decides");
    }
}
