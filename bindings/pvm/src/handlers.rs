//! Message handlers: `pvm_addmhf`, `pvm_delmhf`.

use std::ffi::{c_char, c_int};

use hythe_pvm::code::Code;
use hythe_pvm::handlers::Pattern;

use crate::guard::{Handler, Held, call, text};
use crate::logging::print_out;

#[unsafe(no_mangle)]
extern "C" fn pvm_addmhf(
    source: c_int,
    tag: c_int,
    context: c_int,
    handler: Option<Handler>,
) -> c_int {
    call("pvm_addmhf", |session| {
        let pattern = Pattern {
            source,
            tag,
            context,
        };
        let handler = handler.ok_or(Code::BAD_PARAMETER)?;
        session.handlers.add(pattern, handler)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_delmhf(number: c_int) -> c_int {
    call("pvm_delmhf", |session| {
        session.handlers.remove(number).map(|()| 0)
    })
}

/// Prints a line for each handler, behind who wants it and why.
#[unsafe(no_mangle)]
extern "C" fn pvmdisplaymhfinfo(who: *const c_char, why: *const c_char, task: c_int) -> c_int {
    // SAFETY: the caller passes NULL or text that ends with a zero.
    let who = unsafe { text(who) }.unwrap_or_default();
    // SAFETY: as above.
    let why = unsafe { text(why) }.unwrap_or_default();
    let begin = format!("{who} t{task:x}: ");
    let lines = Held::take().ok().and_then(|mut held| {
        let session = held.existing()?;
        let line = |(number, pattern): (c_int, &Pattern)| {
            let Pattern {
                source,
                tag,
                context,
            } = pattern;
            format!("{begin}handles[{number:2}] src t{source:x} ctx {context} tag {tag}\n")
        };
        Some(session.handlers.list().map(line).collect::<String>())
    });
    let lines = lines.unwrap_or_default();
    print_out(&format!("\n{begin}{why}\n{lines}\n"));
    0
}
