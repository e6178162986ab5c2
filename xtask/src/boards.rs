//! `cargo xtask boards [BOARD…]`: builds the images of `rtos/boards/*/board.toml` into `target/boards/<board>/`.
//!
//! Never builds anything for the host: that is cargo's and `rtos/Makefile`'s work.

/// Builds the named boards, or all.
pub(crate) fn run(boards: &[String]) -> Result<(), String> {
    Err(format!(
        "no board of rtos/boards can be built yet (asked for: {boards:?})"
    ))
}
