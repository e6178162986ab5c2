//! The full barrier, as cheap as the processor has it.
//!
//! Called by [`crate::full_barrier`] only. Never touches shared memory.

#![allow(
    unsafe_code,
    reason = "this is the island: one instruction that the language has no name for"
)]

/// `mfence`, which the compiler emits for a sequentially consistent fence, also orders accesses
/// that bypass the caches, and takes two to three times as long as a locked instruction. Nothing
/// here bypasses the caches: Linux' `smp_mb()` is the same instruction.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn full() {
    // SAFETY: `lock or` with 0 changes no byte, below the stack pointer or anywhere; a thread's own
    // stack is mapped and writable there. It orders all accesses before it with all behind it, in
    // the processor; that it may touch memory, which is the default, orders them in the compiler.
    unsafe {
        core::arch::asm!("lock or dword ptr [rsp], 0", options(nostack));
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(crate) fn full() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}
