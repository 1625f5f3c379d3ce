//! The fingerprint of the log: a sum of the records' hashes, as `records/fingerprint.py` defines it.

use xxhash_rust::xxh3::xxh3_64;

const NULL: u64 = 0x9E37_79B9_7F4A_7C15;
const KEY: u64 = 0xC2B2_AE3D_27D4_EB4F;

#[inline(always)]
pub fn hash_record(offset: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> u64 {
    let place = (offset as u64).wrapping_mul(2).wrapping_add(1);
    place.wrapping_mul(hash(value).wrapping_add(KEY.wrapping_mul(hash(key))))
}

#[inline(always)]
fn hash(part: Option<&[u8]>) -> u64 {
    part.map_or(NULL, xxh3_64)
}
