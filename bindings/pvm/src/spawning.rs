//! `pvm_spawn`.

use std::ffi::{c_char, c_int};

use hythe_pvm::code::Code;
use hythe_pvm::session::SpawnPlace;

use crate::guard::{call, put, say, text};

/// The most arguments: an array without an end is not followed for ever.
const ARGUMENTS_MAX: usize = 1 << 16;

#[unsafe(no_mangle)]
extern "C" fn pvm_spawn(
    program: *const c_char,
    arguments: *const *const c_char,
    flags: c_int,
    place: *const c_char,
    count: c_int,
    tasks: *mut c_int,
) -> c_int {
    let mut refusal = None;
    let spawned = call("pvm_spawn", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let program = unsafe { text(program) }.ok_or(Code::BAD_PARAMETER)?;
        // SAFETY: the caller passes NULL or an array that ends with NULL.
        let arguments = unsafe { list(arguments) }?;
        // SAFETY: as for the program.
        let name = unsafe { text(place) }.unwrap_or_default();
        let variable = |name: &str| std::env::var(name).ok();
        let place = SpawnPlace { flags, name: &name };
        let outcomes = session.spawn(&program, arguments, place, count, variable)?;
        refusal = session.take_refusal();
        let mut started = 0;
        // No more than the caller has places for, whatever the runner says.
        let places = usize::try_from(count).unwrap_or(0);
        for (index, outcome) in outcomes.iter().take(places).enumerate() {
            let number = match outcome {
                Ok(task) => {
                    started += 1;
                    task.number()
                }
                Err(code) => code.number(),
            };
            if !tasks.is_null() {
                // SAFETY: the caller passes a place for as many numbers as tasks.
                unsafe { put(tasks.wrapping_add(index), number) };
            }
        }
        Ok(started)
    });
    // PVM's daemon writes it into its log.
    if let Some(reason) = refusal {
        say(&format!("pvm_spawn(): {reason}"));
    }
    spawned
}

/// # Safety
/// `from` is NULL or points to texts, each with a zero at its end, and a NULL behind them.
unsafe fn list(from: *const *const c_char) -> Result<Vec<String>, Code> {
    let mut found = Vec::new();
    if from.is_null() {
        return Ok(found);
    }
    for index in 0..ARGUMENTS_MAX {
        // SAFETY: the NULL at the end has not come yet.
        let one = unsafe { from.wrapping_add(index).read() };
        // SAFETY: passed on.
        match unsafe { text(one) } {
            Some(text) => found.push(text),
            None => return Ok(found),
        }
    }
    Err(Code::OUT_OF_RESOURCES)
}
