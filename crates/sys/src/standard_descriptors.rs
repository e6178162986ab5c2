//! Descriptors 0, 1 and 2 of a program that has closed them: else they become those of the next
//! files that are opened, and what the program prints goes into a pool.

#![allow(
    unsafe_code,
    reason = "this is the island: descriptors by number, which nobody owns"
)]

/// Opens `/dev/null` in the place of each that is closed, as the standard library does when a
/// program of Rust starts. Where that fails they stay closed.
pub fn occupy_closed() {
    for number in 0..=2 {
        // SAFETY: it takes a number, and changes nothing.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } != -1 {
            continue;
        }
        // The lowest that is free, which is this one.
        // SAFETY: the path ends with a zero.
        let opened = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        if opened > 2 {
            // Another thread was quicker.
            // SAFETY: opened above, and nobody else knows it.
            unsafe { libc::close(opened) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fork::run_in_child;

    fn is_open(number: i32) -> bool {
        // SAFETY: it takes a number, and changes nothing.
        unsafe { libc::fcntl(number, libc::F_GETFD) != -1 }
    }

    #[test]
    fn closed_standard_descriptors_are_occupied() {
        let ended = run_in_child(|| {
            for number in [0, 2] {
                // SAFETY: of a child that uses neither.
                unsafe { libc::close(number) };
            }
            occupy_closed();
            i32::from(!(0..=2).all(is_open))
        });
        assert_eq!(ended.unwrap(), 0);
    }
}
