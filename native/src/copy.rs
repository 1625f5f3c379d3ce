//! The fields of a row in PostgreSQL's binary COPY: a length of four bytes, then the value; -1 is null.

/// PostgreSQL counts from 2000.
pub const MICROS_TO_2000: i64 = 946_684_800_000_000;
pub const DAYS_TO_2000: i32 = 10_957;
/// The digits of numeric are to the base of 10,000, and the point stands between two of them.
pub const BASE: u32 = 10_000;
pub const NEGATIVE: u16 = 0x4000;

pub type Out = Vec<u8>;

#[inline(always)]
pub fn begin_row(out: &mut Out, fields: usize) {
    out.extend_from_slice(&(fields as i16).to_be_bytes());
}

#[inline(always)]
pub fn write_null(out: &mut Out) {
    out.extend_from_slice(&(-1i32).to_be_bytes());
}

#[inline(always)]
pub fn write_bytes(out: &mut Out, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

#[inline(always)]
pub fn write_bool(out: &mut Out, value: bool) {
    write_bytes(out, &[value as u8]);
}

#[inline(always)]
pub fn write_i16(out: &mut Out, value: i16) {
    write_bytes(out, &value.to_be_bytes());
}

#[inline(always)]
pub fn write_i32(out: &mut Out, value: i32) {
    let mut field = [0, 0, 0, 4, 0, 0, 0, 0];
    field[4..].copy_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&field);
}

#[inline(always)]
pub fn write_i64(out: &mut Out, value: i64) {
    let mut field = [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    field[4..].copy_from_slice(&value.to_be_bytes());
    out.extend_from_slice(&field);
}

/// Writes a day, counted from 1970.
#[inline(always)]
pub fn write_date(out: &mut Out, days: i32) {
    write_i32(out, days - DAYS_TO_2000);
}

/// Writes a moment, counted from 1970. It is at least `moments::FIRST`, so that the difference cannot overflow.
#[inline(always)]
pub fn write_moment(out: &mut Out, micros: i64) {
    write_i64(out, micros - MICROS_TO_2000);
}

/// Writes jsonb's text behind the version of its wire format.
#[inline(always)]
pub fn write_jsonb(out: &mut Out, text: &[u8]) {
    out.extend_from_slice(&(text.len() as i32 + 1).to_be_bytes());
    out.push(1);
    out.extend_from_slice(text);
}

/// Writes the number `digits` * 10^-`scale`.
#[inline(always)]
pub fn write_numeric(out: &mut Out, is_negative: bool, digits: u128, scale: u32) {
    let mut groups = [0u16; 14];
    let mut count = 0;
    let mut push = |group: u32| {
        groups[count] = group as u16;
        count += 1;
    };
    // The lowest group may hold fewer than four digits of the fraction.
    let power = 10u128.pow(scale % 4);
    let mut rest = digits;
    if power > 1 {
        push((rest % power) as u32 * (BASE / power as u32));
        rest /= power;
    }
    while rest > u64::MAX as u128 {
        push((rest % BASE as u128) as u32);
        rest /= BASE as u128;
    }
    let mut rest = rest as u64;
    while rest > 0 {
        push((rest % BASE as u64) as u32);
        rest /= BASE as u64;
    }
    write_groups(out, is_negative, &groups[..count], scale);
}

/// Writes a number of 256 bits, its lowest limb first.
pub fn write_wide_numeric(out: &mut Out, is_negative: bool, mut limbs: [u32; 8], scale: u32) {
    let mut groups = vec![];
    let power = 10u32.pow(scale % 4);
    if power > 1 {
        groups.push((divide(&mut limbs, power) * (BASE / power)) as u16);
    }
    while limbs != [0; 8] {
        groups.push(divide(&mut limbs, BASE) as u16);
    }
    write_groups(out, is_negative, &groups, scale);
}

/// Divides in place, and returns the remainder.
fn divide(limbs: &mut [u32; 8], by: u32) -> u32 {
    limbs.iter_mut().rev().fold(0u64, |rest, limb| {
        let whole = rest << 32 | *limb as u64;
        *limb = (whole / by as u64) as u32;
        whole % by as u64
    }) as u32
}

/// Writes the groups of a numeric, which are given from the lowest to the highest, without the zeros at both ends.
#[inline(always)]
fn write_groups(out: &mut Out, is_negative: bool, groups: &[u16], scale: u32) {
    let top = groups.iter().rposition(|group| *group != 0).map_or(0, |place| place + 1);
    let low = groups.iter().position(|group| *group != 0).unwrap_or(top);
    let kept = &groups[low..top];
    let weight = if kept.is_empty() { 0 } else { top as i16 - 1 - scale.div_ceil(4) as i16 };
    let sign = if is_negative && !kept.is_empty() { NEGATIVE } else { 0 };
    out.extend_from_slice(&(8 + 2 * kept.len() as i32).to_be_bytes());
    out.extend_from_slice(&(kept.len() as i16).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&(scale as i16).to_be_bytes());
    for group in kept.iter().rev() {
        out.extend_from_slice(&group.to_be_bytes());
    }
}
