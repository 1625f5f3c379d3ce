//! The record path of Penstock: from Kafka's records to the bytes of PostgreSQL's binary COPY.
//!
//! The path in Python is the reference. This crate takes the records that it reads for certain, and leaves all others
//! to the reference: it never accepts a record that the reference rejects, and never reads a value differently.
#![deny(unsafe_code)]

mod arrow;
mod columns;
mod copy;
mod cursor;
mod encoder;
mod finder;
mod fingerprint;
mod layout;
mod librdkafka;
mod moments;
mod numbers;
mod reader;
mod row;
mod texts;

#[pyo3::pymodule]
mod penstock_native {
    #[pymodule_export]
    use crate::encoder::{Encoder, decode_columns, encode_columns};
    #[pymodule_export]
    use crate::reader::{Consumer, Run};
}
