//! Numbers: whole numbers, floats, and decimals, which are never rounded and never read by way of a float.

use crate::cursor::{Sure, Uncertain};

/// 10^38 is the greatest power of ten in a u128.
const MAX_POWER: u32 = 38;

/// A decimal as it is written: `digits` * 10^-`after`.
#[derive(Debug, PartialEq)]
pub struct Decimal {
    pub is_negative: bool,
    pub digits: u128,
    pub after: i32,
}

/// Reads a whole number of a type with so many bits.
#[inline(always)]
pub fn read_whole(text: &[u8], bits: u32) -> Sure<i64> {
    let (is_negative, digits) = split_sign(text);
    // 18 digits fit without a check of each step.
    if digits.is_empty() || digits.len() > 18 {
        return read_long(text, bits);
    }
    let mut sum = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(Uncertain);
        }
        sum = sum * 10 + (digit - b'0') as i64;
    }
    let number = if is_negative { -sum } else { sum };
    let top = 1i64 << (bits - 1).min(62);
    if bits < 64 && !(-top..top).contains(&number) { Err(Uncertain) } else { Ok(number) }
}

#[cold]
fn read_long(text: &[u8], bits: u32) -> Sure<i64> {
    let is_plain = !text.is_empty() && text[(text[0] == b'-') as usize..].iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).map_err(|_| Uncertain)?;
    if bits == 64 && is_plain { text.parse().map_err(|_| Uncertain) } else { Err(Uncertain) }
}

#[inline(always)]
fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        _ => (false, text),
    }
}

/// Reads a number of JSON's grammar as a float, correctly rounded. A zero with a sign, and numbers that become zero or
/// infinite, are left to the reference.
#[inline(always)]
pub fn read_double(text: &[u8]) -> Sure<f64> {
    let number: f64 = std::str::from_utf8(text).map_err(|_| Uncertain)?.parse().map_err(|_| Uncertain)?;
    if number == 0.0 && !is_zero(text) {
        return Err(Uncertain);
    }
    if number.is_finite() { Ok(number) } else { Err(Uncertain) }
}

/// Whether all digits before an exponent are 0, without a sign.
#[cold]
fn is_zero(text: &[u8]) -> bool {
    text.iter().take_while(|byte| !matches!(byte, b'e' | b'E')).all(|byte| matches!(byte, b'0' | b'.'))
}

/// Reads a float of four bytes, by way of one of eight bytes, as the reference does.
#[inline(always)]
pub fn read_real(text: &[u8]) -> Sure<f32> {
    let wide = read_double(text)?;
    let narrow = wide as f32;
    if narrow.is_finite() && (narrow == 0.0) == (wide == 0.0) { Ok(narrow) } else { Err(Uncertain) }
}

/// Reads a decimal of at most 38 digits. Unlike a number of JSON it may begin with zeros, because texts hold such ones.
#[inline(always)]
pub fn read_decimal(text: &[u8]) -> Sure<Decimal> {
    let (is_negative, unsigned) = split_sign(text);
    if unsigned.len() > MAX_POWER as usize {
        return Err(Uncertain);
    }
    let mut at = 0;
    let (mut digits, mut short) = (0u128, 0u64);
    let (mut after, mut has_point) = (0, false);
    while let Some(byte) = unsigned.get(at) {
        match byte {
            b'0'..=b'9' => {
                let digit = byte - b'0';
                if at < 18 {
                    short = short * 10 + digit as u64;
                    digits = short as u128;
                } else {
                    digits = digits * 10 + digit as u128;
                }
                after += has_point as i32;
            }
            // A digit must stand before the point and behind it.
            b'.' if !has_point && at > 0 && unsigned.get(at + 1).is_some_and(u8::is_ascii_digit) => has_point = true,
            b'e' | b'E' if at > 0 => {
                return Ok(Decimal { is_negative, digits, after: after - read_exponent(&unsigned[at + 1..])? });
            }
            _ => return Err(Uncertain),
        }
        at += 1;
    }
    if at == 0 { Err(Uncertain) } else { Ok(Decimal { is_negative, digits, after }) }
}

fn read_exponent(text: &[u8]) -> Sure<i32> {
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() || digits.len() > 3 {
        return Err(Uncertain);
    }
    let exponent = digits.iter().try_fold(0, |sum, digit| {
        if digit.is_ascii_digit() { Ok(sum * 10 + (digit - b'0') as i32) } else { Err(Uncertain) }
    })?;
    Ok(if is_negative { -exponent } else { exponent })
}

impl Decimal {
    /// The digits of the number with so many digits after its point, if it has no more and its column has room.
    #[inline(always)]
    pub fn scale(&self, precision: u32, scale: u32) -> Sure<u128> {
        let mut digits = self.digits;
        if digits == 0 {
            return Ok(0);
        }
        let missing = scale as i32 - self.after;
        if missing >= 0 {
            let power = 10u128.checked_pow(missing as u32).ok_or(Uncertain)?;
            digits = digits.checked_mul(power).ok_or(Uncertain)?;
        } else {
            for _ in missing..0 {
                if !digits.is_multiple_of(10) {
                    return Err(Uncertain);
                }
                digits /= 10;
            }
        }
        if precision <= MAX_POWER && digits >= 10u128.pow(precision) { Err(Uncertain) } else { Ok(digits) }
    }

    /// The number times so many, rounded down.
    #[inline(always)]
    pub fn floor(&self, times: i64) -> Sure<i64> {
        if !(0..=MAX_POWER as i32).contains(&self.after) {
            return Err(Uncertain);
        }
        let digits = i128::try_from(self.digits).map_err(|_| Uncertain)?;
        let signed = if self.is_negative { -digits } else { digits };
        let whole = signed.checked_mul(times as i128).ok_or(Uncertain)?.div_euclid(10i128.pow(self.after as u32));
        i64::try_from(whole).map_err(|_| Uncertain)
    }
}
