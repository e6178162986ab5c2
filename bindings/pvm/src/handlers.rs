//! Message handlers: `pvm_addmhf`, `pvm_delmhf`.

use std::ffi::c_int;

use hythe_pvm::code::Code;
use hythe_pvm::handlers::Pattern;

use crate::guard::{Handler, Held, call};
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

/// Prints a line for each handler.
#[unsafe(no_mangle)]
extern "C" fn pvmdisplaymhfinfo() -> c_int {
    let lines = Held::take().ok().and_then(|mut held| {
        let session = held.existing()?;
        let line = |(number, pattern): (c_int, &Pattern)| {
            let Pattern {
                source,
                tag,
                context,
            } = pattern;
            format!("handler {number}: source {source:x} tag {tag} context {context}\n")
        };
        Some(session.handlers.list().map(line).collect::<String>())
    });
    print_out(&lines.unwrap_or_default());
    0
}
