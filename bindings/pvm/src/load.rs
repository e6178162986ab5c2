//! What happens when the library is loaded: what a spawned task prints goes where its parent wants
//! it, from its first line on.

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    // Where it does not work, the task prints as others do.
    let _ = std::panic::catch_unwind(hythe_pvm::native::collect_output);
}
