//! `hythe_spawn_options`: tasks that a task starts. Never does more than the facade's `spawn`.

use core::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::path::Path;

use hythe::tasks::{SpawnOptions, SpawnPlace};

use crate::ffi_guard::{Refusal, count, cross, missing, name, open, optional_name};
use crate::sized::{self, Extensible};
use crate::task::hythe_task;

/// The most arguments or variables that are read: a list without its NULL at the end is an error
/// of the program.
const WORDS_MAX: usize = 65_536;

/// What to spawn. Initialise it with hythe_spawn_options_init(); what is zero has its default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_spawn_options {
    /// sizeof(struct hythe_spawn_options).
    pub size: usize,
    /// A path, or a name that PATH leads to.
    pub program: *const c_char,
    /// Its arguments, without its name, and NULL behind the last. NULL: none.
    pub arguments: *const *const c_char,
    /// Variables, NAME=VALUE, beside those of the job, and NULL behind the last. NULL: none.
    pub environment: *const *const c_char,
    /// The directory in which it begins. NULL: that of the job.
    pub directory: *const c_char,
    /// On this host. NULL: anywhere.
    pub host: *const c_char,
    /// On a host of this architecture: x86_64, aarch64, arm. NULL: of any.
    pub architecture: *const c_char,
    /// How many. 0: 1.
    pub count: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: as the trait says; an even number of `u32` ends it.
unsafe impl Extensible for hythe_spawn_options {
    const NOUN: &'static str = "spawn options";
}

/// Initialises options: `hythe_spawn_options_init(&options, sizeof options)`. Any thread.
///
/// # Safety
/// `options` points to `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_spawn_options_init(
    options: *mut hythe_spawn_options,
    size: usize,
) -> c_int {
    // SAFETY: the caller's word.
    cross(|| unsafe { sized::begin(options, size) }.map(|()| 0))
}

/// Spawns tasks of this job, all or none. Their numbers go to `tasks`, which has places for `count`
/// of the options; NULL: they are not wanted. Returns how many. Their failure does not end the job.
/// HYTHE_ERUNNER says what the runner of the job says, for instance that there is no such program;
/// HYTHE_ENOTASK: there is no such host or architecture. Waits for the runner, and other hosts, for
/// at most 30 s.
///
/// # Safety
/// `options` are initialised; the lists in it end with NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_task_spawn(
    task: Option<&hythe_task>,
    options: *const hythe_spawn_options,
    tasks: *mut u32,
) -> c_int {
    cross(|| {
        let task = &open(task)?.task;
        // SAFETY: the caller's word.
        let options = unsafe { read(options) }?;
        let spawned = task.spawn(&options)?;
        for (at, id) in spawned.iter().enumerate() {
            if !tasks.is_null() {
                // SAFETY: it has a place for each.
                let into = unsafe { tasks.add(at) };
                // SAFETY: as above.
                unsafe {
                    into.cast::<MaybeUninit<u32>>()
                        .write(MaybeUninit::new(id.number()))
                };
            }
        }
        Ok(count(spawned.len()))
    })
}

/// # Safety
/// As [`hythe_task_spawn`].
unsafe fn read(options: *const hythe_spawn_options) -> Result<SpawnOptions, Refusal> {
    // SAFETY: the caller's word.
    let given = unsafe { sized::read(options) }?.ok_or_else(|| missing("spawn options"))?;
    // SAFETY: the caller's word.
    let program = unsafe { name(given.program, "program") }?;
    let mut wanted = SpawnOptions::new(program).count(given.count.max(1));
    // SAFETY: the caller's word.
    for argument in unsafe { words(given.arguments, "argument") }? {
        wanted = wanted.argument(argument);
    }
    // SAFETY: the caller's word.
    for variable in unsafe { words(given.environment, "variable") }? {
        let (name, value) = variable.split_once('=').ok_or_else(|| {
            Refusal::argument(format!("the variable `{variable}` is not NAME=VALUE"))
        })?;
        wanted = wanted.variable(name, value);
    }
    // SAFETY: the caller's word.
    if let Some(directory) = unsafe { optional_name(given.directory, "directory") }? {
        wanted = wanted.directory(Path::new(directory));
    }
    // SAFETY: the caller's word.
    let host = unsafe { optional_name(given.host, "host") }?;
    // SAFETY: the caller's word.
    let architecture = unsafe { optional_name(given.architecture, "architecture") }?;
    match (host, architecture) {
        (None, None) => Ok(wanted),
        (Some(host), None) => Ok(wanted.place(SpawnPlace::Host(host.to_owned()))),
        (None, Some(name)) => Ok(wanted.place(SpawnPlace::Architecture(name.to_owned()))),
        (Some(_), Some(_)) => Err(Refusal::argument(
            "a host and an architecture: a host has one, so name the host alone",
        )),
    }
}

/// # Safety
/// `list` is NULL, or a list of texts with NULL behind the last, which stand still for `'a`.
unsafe fn words<'a>(list: *const *const c_char, what: &str) -> Result<Vec<&'a str>, Refusal> {
    let mut words = Vec::new();
    if list.is_null() {
        return Ok(words);
    }
    for at in 0..WORDS_MAX {
        // SAFETY: NULL has not come yet.
        let word = unsafe { list.add(at) };
        // SAFETY: as above.
        let word = unsafe { *word };
        if word.is_null() {
            return Ok(words);
        }
        // SAFETY: it is not NULL; the rest is the caller's word.
        let text = unsafe { CStr::from_ptr(word) };
        let refuse = |_| Refusal::argument(format!("the {what} is not UTF-8: {text:?}"));
        words.push(text.to_str().map_err(refuse)?);
    }
    Err(Refusal::argument(format!(
        "more than {WORDS_MAX} {what}s: is NULL behind the last?"
    )))
}
