//! Edit lists for movies that ffmpeg has made, which writes only simple ones (ISO/IEC 14496-12,
//! 8.6.6).

/// An entry of an edit list, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub enum Edit {
    /// Nothing is shown for so long.
    Empty(u32),
    /// The track is shown from the first on, for as long as the second.
    Part(u32, u32),
}

type Kind = [u8; 4];

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn boxes(mut bytes: &[u8]) -> Vec<(Kind, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (this, behind) = bytes.split_at(word(bytes, 0) as usize);
        found.push((this[4..8].try_into().expect("a kind"), &this[8..]));
        bytes = behind;
    }
    found
}

fn find<'b>(bytes: &'b [u8], kind: &Kind) -> &'b [u8] {
    let found = boxes(bytes).into_iter().find(|(found, _)| found == kind);
    found.expect("the box is there").1
}

fn make(kind: &Kind, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 8).expect("a small box");
    [&length.to_be_bytes(), &kind[..], body].concat()
}

/// A movie of which each track has this edit list instead of its own. Parts begin where the track
/// as ffmpeg wrote it begins to be shown.
///
/// # Panics
///
/// If it is no movie with its index behind its samples, as ffmpeg writes it unless told otherwise.
#[must_use]
pub fn with_edits(movie: &[u8], edits: &[Edit]) -> Vec<u8> {
    let (last, moov) = boxes(movie).pop().expect("boxes");
    assert_eq!(&last, b"moov", "the index is behind the samples");
    let movie_scale = word(find(moov, b"mvhd"), 12);
    let changed = boxes(moov)
        .into_iter()
        .flat_map(|(kind, body)| match &kind {
            b"trak" => make(&kind, &edited(body, movie_scale, edits)),
            _ => make(&kind, body),
        });
    let front = &movie[..movie.len() - moov.len() - 8];
    [front, &make(b"moov", &changed.collect::<Vec<u8>>())].concat()
}

fn edited(trak: &[u8], movie_scale: u32, edits: &[Edit]) -> Vec<u8> {
    let scale = word(find(find(trak, b"mdia"), b"mdhd"), 12);
    // Of the last entry: an empty one may be in front.
    let old = find(find(trak, b"edts"), b"elst");
    let begin = word(old, old.len() - 8);
    let ticks = |ms: u32, scale: u32| u64::from(ms) * u64::from(scale) / 1000;
    let mut elst = [0_u32.to_be_bytes(), (edits.len() as u32).to_be_bytes()].concat();
    for edit in edits {
        let (length, time) = match *edit {
            Edit::Empty(length) => (length, u32::MAX),
            Edit::Part(from, length) => (length, begin + ticks(from, scale) as u32),
        };
        elst.extend((ticks(length, movie_scale) as u32).to_be_bytes());
        elst.extend(time.to_be_bytes());
        elst.extend([0, 1, 0, 0]);
    }
    let changed = boxes(trak)
        .into_iter()
        .flat_map(|(kind, body)| match &kind {
            b"edts" => make(&kind, &make(b"elst", &elst)),
            _ => make(&kind, body),
        });
    changed.collect()
}
