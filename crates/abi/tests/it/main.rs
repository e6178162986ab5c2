//! The tests of this package from outside, in one program: a module for each matter.

mod control_vectors;
mod objects_vectors;
mod pool_vectors;
mod request_vectors;
mod services_vectors;
mod vectors;
