//! The serving end: methods by their numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::{Call, is_method};
use crate::NodeError;
use crate::request::Server;

type Method<'a> = Box<dyn FnMut(Call) -> Result<bool, NodeError> + Send + 'a>;

/// Methods by their numbers.
#[derive(Default)]
pub struct Table<'a> {
    methods: BTreeMap<u32, Method<'a>>,
}

impl<'a> Table<'a> {
    /// A table without methods: every call is answered with "no such method".
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method, which answers its call, and returns what the answer returned; or keeps the
    /// call, to answer it later, and returns true.
    ///
    /// # Panics
    /// If the number is none of a program's own ([`is_method`]), or in the table already.
    #[must_use]
    pub fn method(
        mut self,
        number: u32,
        serve: impl FnMut(Call) -> Result<bool, NodeError> + Send + 'a,
    ) -> Self {
        assert!(
            is_method(number),
            "method {number} is none of a program's own"
        );
        let before = self.methods.insert(number, Box::new(serve));
        assert!(before.is_none(), "method {number} is in the table twice");
        self
    }

    /// Serves one call, which is waited for at most `timeout`. `None`: none came. False: its caller
    /// is gone, and nobody has got the answer.
    ///
    /// # Errors
    /// Those of [`Call::take`], and of the method.
    pub fn serve(
        &mut self,
        server: &mut Server,
        timeout: Duration,
    ) -> Result<Option<bool>, NodeError> {
        let Some(call) = Call::take(server, timeout)? else {
            return Ok(None);
        };
        match self.methods.get_mut(&call.method()) {
            Some(method) => method(call),
            None => call.refuse_method(),
        }
        .map(Some)
    }
}

impl fmt::Debug for Table<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.methods.keys();
        formatter.debug_set().entries(numbers).finish()
    }
}
