//! Numbers and arrays as payload, under the names that Rust gives them.

use super::Payload;

/// Bytes of the longest name of an array type: as much as a channel's type may be called.
const NAME_BYTES: usize = hythe_abi::pool::NAME_BYTES;

macro_rules! numbers {
    ($($number:ident)*) => {
        $(impl Payload for $number {
            const NAME: &'static str = stringify!($number);
        })*
    };
}

numbers!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

impl<T: Payload, const N: usize> Payload for [T; N] {
    const NAME: &'static str = ArrayName::<T, N>::NAME;
    const VERSION: u32 = T::VERSION;
}

/// The name of an array type, made when the program is compiled.
struct ArrayName<T, const N: usize>(std::marker::PhantomData<T>);

impl<T: Payload, const N: usize> ArrayName<T, N> {
    const TEXT: Text = Text::new()
        .with(b"[")
        .with(T::NAME.as_bytes())
        .with(b"; ")
        .with_number(N)
        .with(b"]");
    const BYTES: &'static [u8] = Self::TEXT.bytes.split_at(Self::TEXT.length).0;
    const NAME: &'static str = match std::str::from_utf8(Self::BYTES) {
        Ok(name) => name,
        Err(_) => panic!("a name and ASCII signs are UTF-8"),
    };
}

/// Text that is being put together.
#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; NAME_BYTES],
    length: usize,
}

impl Text {
    const fn new() -> Self {
        Self {
            bytes: [0; NAME_BYTES],
            length: 0,
        }
    }

    const fn with(mut self, more: &[u8]) -> Self {
        assert!(
            more.len() <= NAME_BYTES - self.length,
            "the name of an array type is too long: give its elements a shorter one"
        );
        let mut index = 0;
        while index < more.len() {
            self.bytes[self.length] = more[index];
            self.length += 1;
            index += 1;
        }
        self
    }

    const fn with_number(self, number: usize) -> Self {
        let digit = b'0' + (number % 10) as u8;
        let rest = number / 10;
        let before = if rest == 0 {
            self
        } else {
            self.with_number(rest)
        };
        before.with(&[digit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_have_the_names_that_rust_gives_them() {
        assert_eq!(<[f64; 3]>::NAME, "[f64; 3]");
        assert_eq!(<[[u8; 1024]; 10]>::NAME, "[[u8; 1024]; 10]");
        assert_eq!(<[i128; 0]>::NAME, "[i128; 0]");
    }
}
