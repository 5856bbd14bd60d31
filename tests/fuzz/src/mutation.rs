//! Deterministic mutation of seeds.

use std::time::{Duration, Instant};

/// xorshift64*: small and deterministic.
struct XorShiftRng(u64);

impl XorShiftRng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % limit.max(1)
    }
}

/// Fragments that often break parsers of rng, strings and structures.
const FRAGMENTS: [&[u8]; 16] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b":",
    b",",
    b"null",
    b"-1",
    b"1e309",
    b"18446744073709551616",
    b"\\u0000",
    b"\xff\xff\xff\xff",
    b"\x00\x00",
    b"\xf0\x9f\x90\xa7",
    b"/@/",
];

/// Run `target` on the seeds and on mutations of them for `time`. Returns the number of inputs.
pub fn run(seeds: &[Vec<u8>], time: Duration, target: impl Fn(&[u8])) -> usize {
    seeds.iter().for_each(|seed| target(seed));
    let mut rng = XorShiftRng(0x0fe2_20ba_4d00_0001);
    let end = Instant::now() + time;
    let mut count = seeds.len();
    while Instant::now() < end {
        for _ in 0..64 {
            let mut input = seeds[rng.below(seeds.len())].clone();
            for _ in 0..=rng.below(6) {
                mutate(&mut input, &mut rng, seeds);
            }
            target(&input);
            count += 1;
        }
    }
    count
}

fn mutate(input: &mut Vec<u8>, rng: &mut XorShiftRng, seeds: &[Vec<u8>]) {
    let place = rng.below(input.len() + 1);
    match rng.below(6) {
        0 => input.truncate(place),
        1 if place < input.len() => input[place] ^= 1 << rng.below(8),
        2 if place < input.len() => {
            input.remove(place);
        }
        3 => {
            let piece = FRAGMENTS[rng.below(FRAGMENTS.len())];
            input.splice(place..place, piece.iter().copied());
        }
        4 => {
            // Overwrite with a part of another seed.
            let other = &seeds[rng.below(seeds.len())];
            let (from, length) = (rng.below(other.len() + 1), rng.below(32));
            let part = other[from..].iter().copied().take(length).collect::<Vec<_>>();
            let until = (place + part.len()).min(input.len());
            input.splice(place..until, part);
        }
        _ => {
            let piece = input[place..].iter().copied().take(rng.below(64)).collect::<Vec<_>>();
            input.splice(place..place, piece);
        }
    }
}
