//! Rows of Arrow's columns as PostgreSQL's binary COPY, for the rows that the reference in Python has made.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::copy::{self, Out};

/// A column's family and scale, and its buffers: validity or none, offsets or none, data.
pub type Buffers = (String, u32, Option<PyBackedBytes>, Option<PyBackedBytes>, PyBackedBytes);

/// A column with its values one after the other, as Arrow's format has them.
struct Column<'a> {
    family: &'a str,
    scale: u32,
    validity: Option<&'a [u8]>,
    offsets: Option<&'a [u8]>,
    data: &'a [u8],
    /// The bytes of one value; 0 where they differ, and for bits.
    width: usize,
}

/// Writes `count` rows.
pub fn write_rows(buffers: &[Buffers], count: usize) -> PyResult<Out> {
    let columns = buffers.iter().map(|buffers| Column::new(buffers, count)).collect::<PyResult<Vec<_>>>()?;
    let mut out = Out::new();
    for row in 0..count {
        copy::begin_row(&mut out, columns.len());
        for column in &columns {
            column.write(row, &mut out).ok_or_else(|| broken(column.family))?;
        }
    }
    Ok(out)
}

fn broken(family: &str) -> PyErr {
    PyValueError::new_err(format!("the buffers of a column of type {family} do not hold its rows"))
}

impl<'a> Column<'a> {
    fn new((family, scale, validity, offsets, data): &'a Buffers, count: usize) -> PyResult<Column<'a>> {
        let width = match family.as_str() {
            "smallint" => 2,
            "integer" | "real" | "date" => 4,
            "bigint" | "double" | "time" | "timestamp" | "timestamptz" => 8,
            "uuid" => 16,
            // Arrow pads its buffers: the width is the greatest that fits.
            "numeric" => {
                if data.len() >= 32 * count {
                    32
                } else {
                    16
                }
            }
            "boolean" => 0,
            _ if offsets.is_some() => 0,
            _ => return Err(broken(family)),
        };
        Ok(Column { family, scale: *scale, validity: validity.as_deref(), offsets: offsets.as_deref(), data, width })
    }

    /// Writes the field of a row; `None` if the buffers are too short.
    fn write(&self, row: usize, out: &mut Out) -> Option<()> {
        if let Some(validity) = self.validity
            && !read_bit(validity, row)?
        {
            copy::write_null(out);
            return Some(());
        }
        match self.family {
            "boolean" => copy::write_bool(out, read_bit(self.data, row)?),
            "smallint" => copy::write_i16(out, i16::from_le_bytes(self.read(row)?)),
            // The bits of a float are written as they are.
            "integer" | "real" => copy::write_i32(out, i32::from_le_bytes(self.read(row)?)),
            "bigint" | "double" | "time" => copy::write_i64(out, i64::from_le_bytes(self.read(row)?)),
            "date" => copy::write_date(out, i32::from_le_bytes(self.read(row)?)),
            "timestamp" | "timestamptz" => copy::write_moment(out, i64::from_le_bytes(self.read(row)?)),
            "uuid" => copy::write_bytes(out, &self.read::<16>(row)?),
            "numeric" if self.width == 16 => {
                let number = i128::from_le_bytes(self.read(row)?);
                copy::write_numeric(out, number < 0, number.unsigned_abs(), self.scale);
            }
            "numeric" => self.write_wide(row, out)?,
            _ => {
                let (from, until) = (self.read_offset(row)?, self.read_offset(row + 1)?);
                copy::write_bytes(out, self.data.get(from..until)?);
            }
        }
        Some(())
    }

    fn read<const WIDTH: usize>(&self, row: usize) -> Option<[u8; WIDTH]> {
        self.data.get(row * WIDTH..)?.first_chunk().copied()
    }

    fn read_offset(&self, row: usize) -> Option<usize> {
        let bytes = self.offsets?.get(row * 4..)?.first_chunk().copied()?;
        usize::try_from(i32::from_le_bytes(bytes)).ok()
    }

    /// Writes a decimal of 256 bits, in two's complement.
    fn write_wide(&self, row: usize, out: &mut Out) -> Option<()> {
        let bytes: [u8; 32] = self.read(row)?;
        let is_negative = bytes[31] & 0x80 != 0;
        let mut carry = is_negative;
        let mut limbs = [0u32; 8];
        for (limb, four) in limbs.iter_mut().zip(bytes.as_chunks::<4>().0) {
            let word = u32::from_le_bytes(*four);
            (*limb, carry) = if is_negative { (!word).overflowing_add(carry as u32) } else { (word, false) };
        }
        copy::write_wide_numeric(out, is_negative, limbs, self.scale);
        Some(())
    }
}

fn read_bit(bits: &[u8], place: usize) -> Option<bool> {
    Some(bits.get(place / 8)? >> (place % 8) & 1 == 1)
}
