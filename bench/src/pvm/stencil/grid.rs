//! Some rows of the square of `jacobi.c`, and one step of them.

/// Of a point.
pub(super) const POINT_BYTES: usize = size_of::<f64>();

/// A border row: the first or the last of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Border {
    Above,
    Below,
}

/// Rows with a border above and below, and a column on either side.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    points: Vec<f64>,
    rows: usize,
    size: usize,
}

impl Grid {
    /// Hot above the square, cold elsewhere; `first` is the number of the first row within it.
    pub(super) fn new(first: usize, rows: usize, size: usize) -> Self {
        let mut points = vec![0.0; (rows + 2) * (size + 2)];
        if first == 0 {
            points[..size + 2].fill(1.0);
        }
        Self { points, rows, size }
    }

    /// Row 0 and the one behind the last are those beside the share.
    fn row(&self, row: usize) -> &[f64] {
        let width = self.size + 2;
        &self.points[row * width..][..width]
    }

    fn row_mut(&mut self, row: usize) -> &mut [f64] {
        let width = self.size + 2;
        &mut self.points[row * width..][..width]
    }

    /// The rows between the first and the last.
    pub(super) fn step_within(&self, next: &mut Self) {
        for row in 2..self.rows {
            let [above, here, below] = [row - 1, row, row + 1].map(|row| self.row(row));
            mean(above, here, below, next.row_mut(row));
        }
    }

    /// The first row, or the last: `told` is what the neighbour has there, and `tell` where it
    /// shall read this row; none of its points, or all.
    pub(super) fn step_border(
        &self,
        next: &mut Self,
        border: Border,
        told: Option<&[u8]>,
        tell: &mut [u8],
    ) {
        let row = match border {
            Border::Above => 1,
            Border::Below => self.rows,
        };
        let [above, here, below] = [row - 1, row, row + 1].map(|row| self.row(row));
        let result = next.row_mut(row);
        match (told, border) {
            (None, _) => mean(above, here, below, result),
            (Some(told), Border::Above) => {
                mean_of(told, here, result, |told, at| (told, below[at]))
            }
            (Some(told), Border::Below) => {
                mean_of(told, here, result, |told, at| (above[at], told))
            }
        }
        let points = result[1..].iter();
        for (bytes, point) in tell.chunks_exact_mut(POINT_BYTES).zip(points) {
            bytes.copy_from_slice(&point.to_ne_bytes());
        }
    }

    /// The rows of the share without what is beside it.
    pub(super) fn points(&self) -> Vec<u8> {
        let rows = (1..=self.rows).flat_map(|row| &self.row(row)[1..=self.size]);
        rows.flat_map(|point| point.to_ne_bytes()).collect()
    }
}

/// Each point in the order of `jacobi.c`, so that the bits are the same.
fn mean(above: &[f64], here: &[f64], below: &[f64], result: &mut [f64]) {
    let size = result.len() - 2;
    let (above, below) = (&above[1..=size], &below[1..=size]);
    let (left, right) = (&here[..size], &here[2..size + 2]);
    for (at, result) in result[1..=size].iter_mut().enumerate() {
        *result = 0.25 * (above[at] + below[at] + left[at] + right[at]);
    }
}

/// The same where one of the rows beside it is a message: `sides` are the points above and below.
fn mean_of(
    told: &[u8],
    here: &[f64],
    result: &mut [f64],
    sides: impl Fn(f64, usize) -> (f64, f64),
) {
    for (at, bytes) in (1..).zip(told.chunks_exact(POINT_BYTES)) {
        let told = f64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        let (above, below) = sides(told, at);
        result[at] = 0.25 * (above + below + here[at - 1] + here[at + 1]);
    }
}

/// All rows, by one task.
pub(super) fn serial(size: usize, rounds: u32) -> Grid {
    let mut grid = Grid::new(0, size, size);
    let mut next = grid.clone();
    for _ in 0..rounds {
        for border in [Border::Above, Border::Below] {
            grid.step_border(&mut next, border, None, &mut []);
        }
        grid.step_within(&mut next);
        std::mem::swap(&mut grid, &mut next);
    }
    grid
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two shares that tell each other their borders are the whole.
    #[test]
    fn shares_with_exchanged_borders_match_serial_result() {
        const SIZE: usize = 9;
        const ROUNDS: u32 = 7;
        let mut grids = [Grid::new(0, 4, SIZE), Grid::new(4, 5, SIZE)];
        let mut next = grids.clone();
        let mut told: [Option<Vec<u8>>; 2] = [None, None];
        for _ in 0..ROUNDS {
            let mut tell = [(); 2].map(|()| vec![0; SIZE * POINT_BYTES]);
            for (part, inner) in [(0, Border::Below), (1, Border::Above)] {
                let outer = match inner {
                    Border::Above => Border::Below,
                    Border::Below => Border::Above,
                };
                let (grid, next) = (&grids[part], &mut next[part]);
                grid.step_border(next, outer, None, &mut []);
                grid.step_border(next, inner, told[part].as_deref(), &mut tell[part]);
                grid.step_within(next);
            }
            std::mem::swap(&mut grids, &mut next);
            let [first, second] = tell;
            told = [Some(second), Some(first)];
        }
        let whole = [grids[0].points(), grids[1].points()].concat();
        assert_eq!(whole, serial(SIZE, ROUNDS).points());
        // And it is not all cold.
        assert!(whole.iter().any(|byte| *byte != 0));
    }
}
