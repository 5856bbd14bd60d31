//! Mutating seeds, the same way in every run.

use std::time::{Duration, Instant};

/// xorshift64*: small, and the same everywhere.
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

/// Pieces that readers of numbers, texts and structures trip over.
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

/// Send `target` the seeds and mutations of them for as long as `time`; how many it got.
pub fn run(seeds: &[Vec<u8>], time: Duration, target: impl Fn(&[u8])) -> usize {
    seeds.iter().for_each(|seed| target(seed));
    let mut numbers = XorShiftRng(0x0fe2_20ba_4d00_0001);
    let end = Instant::now() + time;
    let mut count = seeds.len();
    while Instant::now() < end {
        for _ in 0..64 {
            let mut input = seeds[numbers.below(seeds.len())].clone();
            for _ in 0..=numbers.below(6) {
                mutate(&mut input, &mut numbers, seeds);
            }
            target(&input);
            count += 1;
        }
    }
    count
}

fn mutate(input: &mut Vec<u8>, numbers: &mut XorShiftRng, seeds: &[Vec<u8>]) {
    let place = numbers.below(input.len() + 1);
    match numbers.below(6) {
        0 => input.truncate(place),
        1 if place < input.len() => input[place] ^= 1 << numbers.below(8),
        2 if place < input.len() => {
            input.remove(place);
        }
        3 => {
            let piece = FRAGMENTS[numbers.below(FRAGMENTS.len())];
            input.splice(place..place, piece.iter().copied());
        }
        4 => {
            // Part of another seed, over what is there.
            let other = &seeds[numbers.below(seeds.len())];
            let (from, length) = (numbers.below(other.len() + 1), numbers.below(32));
            let part = other[from..].iter().copied().take(length).collect::<Vec<_>>();
            let until = (place + part.len()).min(input.len());
            input.splice(place..until, part);
        }
        _ => {
            let piece = input[place..].iter().copied().take(numbers.below(64)).collect::<Vec<_>>();
            input.splice(place..place, piece);
        }
    }
}
