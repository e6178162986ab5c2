//! Empty on purpose: this package only pins and locates C sources (see its manifest). It is never
//! compiled.
