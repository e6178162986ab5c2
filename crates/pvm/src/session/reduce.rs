//! `PvmMax`, `PvmMin`, `PvmSum`, `PvmProduct`: two arrays become one, number by number.

use crate::buffer::Kind;
use crate::code::Code;

/// What becomes of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The greater; of complex ones that with the greater modulus.
    Maximum,
    /// The lesser.
    Minimum,
    /// Both together.
    Sum,
    /// One times the other.
    Product,
}

/// Combines `other` into `values`, both as in memory.
///
/// # Errors
/// [`Code::BAD_PARAMETER`]: bytes have neither sum nor product; the lengths differ.
pub fn reduce(
    operation: Operation,
    kind: Kind,
    values: &mut [u8],
    other: &[u8],
) -> Result<(), Code> {
    if values.len() != other.len() {
        return Err(Code::BAD_PARAMETER);
    }
    macro_rules! whole {
        ($number:ty) => {
            each(values, other, |one, two| {
                let (one, two) = (<$number>::from_ne_bytes(one), <$number>::from_ne_bytes(two));
                let result = match operation {
                    Operation::Maximum => one.max(two),
                    Operation::Minimum => one.min(two),
                    Operation::Sum => one.wrapping_add(two),
                    Operation::Product => one.wrapping_mul(two),
                };
                result.to_ne_bytes()
            })
        };
    }
    macro_rules! real {
        ($number:ty) => {
            each(values, other, |one, two| {
                let (one, two) = (<$number>::from_ne_bytes(one), <$number>::from_ne_bytes(two));
                let result = match operation {
                    Operation::Maximum => one.max(two),
                    Operation::Minimum => one.min(two),
                    Operation::Sum => one + two,
                    Operation::Product => one * two,
                };
                result.to_ne_bytes()
            })
        };
    }
    let is_arithmetic = [Operation::Sum, Operation::Product].contains(&operation);
    match kind {
        Kind::Byte if is_arithmetic => return Err(Code::BAD_PARAMETER),
        Kind::Byte => whole!(i8),
        Kind::Short => whole!(i16),
        Kind::UnsignedShort => whole!(u16),
        Kind::Int => whole!(i32),
        Kind::UnsignedInt => whole!(u32),
        Kind::Long if size_of::<std::ffi::c_long>() == 4 => whole!(i32),
        Kind::UnsignedLong if size_of::<std::ffi::c_ulong>() == 4 => whole!(u32),
        Kind::Long => whole!(i64),
        Kind::UnsignedLong => whole!(u64),
        Kind::Float => real!(f32),
        Kind::Double => real!(f64),
        Kind::Complex => singles(operation, values, other),
        Kind::DoubleComplex => doubles(operation, values, other),
    }
    Ok(())
}

fn singles(operation: Operation, values: &mut [u8], other: &[u8]) {
    let pair = |[a, b, c, d, e, f, g, h]: [u8; 8]| {
        let real = f32::from_ne_bytes([a, b, c, d]);
        let imaginary = f32::from_ne_bytes([e, f, g, h]);
        (f64::from(real), f64::from(imaginary))
    };
    each(values, other, |one, two| {
        let (real, imaginary) = complex(operation, pair(one), pair(two));
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&(real as f32).to_ne_bytes());
        bytes[4..].copy_from_slice(&(imaginary as f32).to_ne_bytes());
        bytes
    });
}

fn doubles(operation: Operation, values: &mut [u8], other: &[u8]) {
    let pair = |bytes: [u8; 16]| {
        let (mut real, mut imaginary) = ([0; 8], [0; 8]);
        real.copy_from_slice(&bytes[..8]);
        imaginary.copy_from_slice(&bytes[8..]);
        (f64::from_ne_bytes(real), f64::from_ne_bytes(imaginary))
    };
    each(values, other, |one, two| {
        let (real, imaginary) = complex(operation, pair(one), pair(two));
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&real.to_ne_bytes());
        bytes[8..].copy_from_slice(&imaginary.to_ne_bytes());
        bytes
    });
}

fn each<const N: usize>(
    values: &mut [u8],
    other: &[u8],
    combine: impl Fn([u8; N], [u8; N]) -> [u8; N],
) {
    let (values, _) = values.as_chunks_mut::<N>();
    let (other, _) = other.as_chunks::<N>();
    for (value, other) in values.iter_mut().zip(other) {
        *value = combine(*value, *other);
    }
}

type Complex = (f64, f64);

fn complex(operation: Operation, one: Complex, two: Complex) -> Complex {
    let modulus = |value: Complex| value.0 * value.0 + value.1 * value.1;
    match operation {
        Operation::Maximum if modulus(two) > modulus(one) => two,
        Operation::Minimum if modulus(two) < modulus(one) => two,
        Operation::Maximum | Operation::Minimum => one,
        Operation::Sum => (one.0 + two.0, one.1 + two.1),
        Operation::Product => (one.0 * two.0 - one.1 * two.1, one.0 * two.1 + one.1 * two.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(values: &[f64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect()
    }

    #[test]
    fn arrays_become_one() {
        let (one, two) = (memory(&[1.0, 5.0]), memory(&[3.0, 2.0]));
        for (operation, wanted) in [
            (Operation::Maximum, [3.0, 5.0]),
            (Operation::Minimum, [1.0, 2.0]),
            (Operation::Sum, [4.0, 7.0]),
            (Operation::Product, [3.0, 10.0]),
        ] {
            let mut values = one.clone();
            reduce(operation, Kind::Double, &mut values, &two).expect("the same length");
            assert_eq!(values, memory(&wanted), "{operation:?}");
        }
        // (1 + 5i)(3 + 2i), and the greater modulus is that of 1 + 5i.
        let mut product = one.clone();
        reduce(Operation::Product, Kind::DoubleComplex, &mut product, &two).expect("two pairs");
        assert_eq!(product, memory(&[-7.0, 17.0]));
        let mut greatest = two.clone();
        reduce(Operation::Maximum, Kind::DoubleComplex, &mut greatest, &one).expect("two pairs");
        assert_eq!(greatest, one);
    }

    #[test]
    fn what_has_no_sum_is_refused() {
        let mut bytes = [1];
        let sum = reduce(Operation::Sum, Kind::Byte, &mut bytes, &[2]);
        assert_eq!(sum, Err(Code::BAD_PARAMETER));
        assert_eq!(
            reduce(Operation::Maximum, Kind::Byte, &mut bytes, &[2]),
            Ok(())
        );
        assert_eq!(bytes, [2]);
        let uneven = reduce(Operation::Sum, Kind::Int, &mut [0; 4], &[0; 8]);
        assert_eq!(uneven, Err(Code::BAD_PARAMETER));
    }
}
