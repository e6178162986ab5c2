//! Chances by a seed, and inputs damaged by them: for tests called `hostile`, whose bodies the fuzz
//! targets share.

/// Where nothing else is said: the same in every run, so that what passed yesterday is what runs
/// today.
const SEED: u64 = 20_261_122;
/// Says which seed is used instead.
const SEED_VARIABLE: &str = "HYTHE_TEST_SEED";

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// By the seed of the environment variable `HYTHE_TEST_SEED`, else by one that is always the
    /// same; printed, so that a run that fails can be repeated.
    #[must_use]
    pub fn from_environment() -> Self {
        let given = std::env::var(SEED_VARIABLE).ok();
        let seed = given.and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
        println!("{SEED_VARIABLE}={seed}");
        Self(seed)
    }

    /// All 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ value >> 31
    }

    /// At least 0, less than `limit`; 0 for a limit of 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit.max(1) as u64) as usize
    }

    /// One of `from`.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn pick<'p, T>(&mut self, from: &'p [T]) -> &'p T {
        &from[self.below(from.len())]
    }

    /// `original`, changed in one to four places: bits, extreme bytes, pieces that are missing,
    /// doubled, moved or invented. Pieces are of a few bytes, as fields are, or of some hundred, as
    /// records and packets are.
    pub fn damage(&mut self, original: &[u8]) -> Vec<u8> {
        let mut bytes = original.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let piece_max = *self.pick(&[40, 300]);
            let end = (at + 1 + self.below(piece_max)).min(bytes.len());
            match self.below(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[at] = *self.pick(&[0, 0xff, 0x7f, 0x80]),
                2 => bytes.truncate(at),
                3 => drop(bytes.drain(at..end)),
                4 => {
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len());
                    bytes.splice(to..to, piece);
                }
                _ => bytes[at..end]
                    .iter_mut()
                    .for_each(|byte| *byte = self.below(256) as u8),
            }
        }
        bytes
    }
}

/// Hands `check` each of `originals` as it is, and then `rounds` times one of them damaged, by the
/// seed of the environment.
///
/// # Panics
///
/// If there are no originals; and as `check` does.
pub fn play(originals: &[Vec<u8>], rounds: usize, mut check: impl FnMut(Vec<u8>)) {
    let mut dice = Dice::from_environment();
    originals.iter().cloned().for_each(&mut check);
    for _ in 0..rounds {
        let original = dice.pick(originals);
        check(dice.damage(original));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_repeats_a_run_and_another_does_not() {
        let run = |seed| {
            let mut dice = Dice::new(seed);
            (0..50).map(|_| dice.damage(&[7; 1000])).collect::<Vec<_>>()
        };
        assert!(run(1) == run(1) && run(1) != run(2));
    }

    /// The first numbers of seed 1234567, as the authors' program prints them
    /// (https://prng.di.unimi.it/splitmix64.c).
    #[test]
    fn numbers_are_those_of_the_paper() {
        let mut dice = Dice::new(1_234_567);
        assert_eq!(dice.number(), 6_457_827_717_110_365_317);
        assert_eq!(dice.number(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn damage_is_of_every_kind_and_of_nothing_it_makes_nothing() {
        let mut dice = Dice::new(3);
        let original: Vec<u8> = (0..=255).collect();
        let damaged: Vec<Vec<u8>> = (0..200).map(|_| dice.damage(&original)).collect();
        for is_there in [
            &(|bytes: &Vec<u8>| bytes.len() < original.len()) as &dyn Fn(&Vec<u8>) -> bool,
            &|bytes| bytes.len() > original.len(),
            &|bytes| bytes.len() == original.len() && *bytes != original,
        ] {
            assert!(damaged.iter().any(is_there));
        }
        assert!((0..200).all(|_| dice.damage(&[]).is_empty()));
    }

    #[test]
    fn originals_come_first_and_each_is_damaged() {
        let originals = [vec![1; 500], vec![2; 500]];
        let mut seen = Vec::new();
        play(&originals, 100, |bytes| seen.push(bytes));
        assert!(seen.len() == 102 && seen[..2] == originals);
        for byte in [1, 2] {
            let count = |bytes: &&Vec<u8>| bytes.iter().filter(|found| **found == byte).count();
            assert!(seen[2..].iter().any(|bytes| count(&bytes) > 100));
        }
    }
}
