//! Headers of H.265 (ITU-T H.265, sections 7.3.1.2, 7.3.2, 7.3.6 and 8.3.1): of the base layer, and
//! no further than display order and frame rate need.
//!
//! The crates that read these headers decode whole streams with the help of a device, or allocate
//! by numbers they read; the little that is needed is here. Bits are read by `h264-reader`.

use h264_reader::rbsp::{BitRead, BitReaderError};

use super::bits::Bits;
use super::slice::{Picture, Slice, Trouble, nearest};
use super::{Codec, FrameRate};

/// Most pictures that a decoded picture buffer holds (A.4.2).
const PICTURES_MAX: u32 = 16;
/// Identifiers end below (7.4.3.2.1, 7.4.3.3.1).
const SEQUENCE_SETS: usize = 16;
const PICTURE_SETS: usize = 64;

/// Parameter sets, and the state that orders pictures.
pub(crate) struct Headers {
    sequences: [Option<Sequence>; SEQUENCE_SETS],
    pictures: [Option<PictureSet>; PICTURE_SETS],
    frame_rate: Option<FrameRate>,
    /// Order count of the picture that the next one's is completed by (`prevTid0Pic`).
    reference_order: i64,
    /// The next picture is the first of a sequence.
    sequence_ended: bool,
}

impl Default for Headers {
    fn default() -> Self {
        Self {
            sequences: [None; SEQUENCE_SETS],
            pictures: [None; PICTURE_SETS],
            frame_rate: None,
            reference_order: 0,
            sequence_ended: true,
        }
    }
}

/// What is kept of a sequence parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sequence {
    separate_colour_planes: bool,
    order_low_bits: u32,
    reordered_max: u32,
}

/// What is kept of a picture parameter set.
#[derive(Clone, Copy, Debug)]
struct PictureSet {
    sequence: usize,
    output_flag_present: bool,
    extra_header_bits: u32,
}

impl From<BitReaderError> for Trouble {
    fn from(_: BitReaderError) -> Self {
        Self::Damaged
    }
}

impl Headers {
    pub(crate) fn sequence_set(&mut self, nal: &[u8]) -> Result<(), Trouble> {
        let (id, sequence, frame_rate) = sequence_set(&mut Bits::behind_header(nal, 2))?;
        *self.sequences.get_mut(id).ok_or(Trouble::Damaged)? = Some(sequence);
        self.frame_rate = self.frame_rate.or(frame_rate);
        Ok(())
    }

    pub(crate) fn picture_set(&mut self, nal: &[u8]) -> Result<(), Trouble> {
        let mut bits = Bits::behind_header(nal, 2);
        let id = bits.read_ue("pps_pic_parameter_set_id")? as usize;
        let sequence = bits.read_ue("pps_seq_parameter_set_id")? as usize;
        bits.read_bit("dependent_slice_segments_enabled_flag")?;
        let set = PictureSet {
            sequence,
            output_flag_present: bits.read_bit("output_flag_present_flag")?,
            extra_header_bits: bits.read::<3, u32>("num_extra_slice_header_bits")?,
        };
        *self.pictures.get_mut(id).ok_or(Trouble::Damaged)? = Some(set);
        Ok(())
    }

    pub(crate) fn end_sequence(&mut self) {
        self.sequence_ended = true;
    }

    pub(crate) fn frame_rate(&self) -> Option<FrameRate> {
        self.frame_rate
    }

    pub(crate) fn slice(&mut self, nal: &[u8]) -> Result<Slice, Trouble> {
        let nal_type = Codec::H265.nal_type(nal).ok_or(Trouble::Damaged)?;
        let mut bits = Bits::behind_header(nal, 2);
        if !bits.read_bit("first_slice_segment_in_pic_flag")? {
            return Ok(Slice::Continues);
        }
        let is_random_access = (16..=23).contains(&nal_type);
        if is_random_access {
            bits.read_bit("no_output_of_prior_pics_flag")?;
        }
        let id = bits.read_ue("slice_pic_parameter_set_id")? as usize;
        let picture_set = self
            .pictures
            .get(id)
            .copied()
            .flatten()
            .ok_or(Trouble::Damaged)?;
        let sequence = self.sequences.get(picture_set.sequence).copied().flatten();
        let sequence = sequence.ok_or(Trouble::Damaged)?;
        bits.skip(picture_set.extra_header_bits, "slice_reserved_flag")?;
        bits.read_ue("slice_type")?;
        if picture_set.output_flag_present {
            bits.read_bit("pic_output_flag")?;
        }
        if sequence.separate_colour_planes {
            bits.skip(2, "colour_plane_id")?;
        }
        let is_idr = matches!(nal_type, 19 | 20);
        let low = match is_idr {
            true => 0,
            false => bits.read_var(sequence.order_low_bits, "slice_pic_order_cnt_lsb")?,
        };
        // Section 8.1.3: broken link, refresh, or the first of a sequence.
        let restarts = (16..=20).contains(&nal_type) || is_random_access && self.sequence_ended;
        self.sequence_ended = false;
        let order = match restarts {
            true => i64::from(low),
            false => nearest(self.reference_order, low, sequence.order_low_bits),
        };
        // Leading pictures and those no other of their layer refers to are no anchors (8.3.1).
        let is_anchor = nal.get(1).is_some_and(|byte| byte & 7 == 1)
            && !(6..=9).contains(&nal_type)
            && !(nal_type <= 14 && nal_type % 2 == 0);
        if is_anchor {
            self.reference_order = order;
        }
        Ok(Slice::Begins(Picture {
            order,
            restarts,
            reordered_max: sequence.reordered_max as usize,
        }))
    }
}

/// Section 7.3.2.2.1: identifier, what is kept, frame rate.
fn sequence_set(bits: &mut Bits<'_>) -> Result<(usize, Sequence, Option<FrameRate>), Trouble> {
    bits.skip(4, "sps_video_parameter_set_id")?;
    let sub_layers = at_most(bits.read::<3, u32>("sps_max_sub_layers_minus1")?, 6)?;
    bits.skip(1, "sps_temporal_id_nesting_flag")?;
    profile_tier_level(bits, sub_layers)?;
    let id = bits.read_ue("sps_seq_parameter_set_id")? as usize;
    let chroma_format = at_most(bits.read_ue("chroma_format_idc")?, 3)?;
    let separate_colour_planes =
        chroma_format == 3 && bits.read_bit("separate_colour_plane_flag")?;
    numbers(bits, 2)?; // width, height
    if bits.read_bit("conformance_window_flag")? {
        numbers(bits, 4)?;
    }
    numbers(bits, 2)?; // bit depths
    let order_low_bits = 4 + at_most(bits.read_ue("log2_max_pic_order_cnt_lsb_minus4")?, 12)?;
    let all_layers = bits.read_bit("sps_sub_layer_ordering_info_present_flag")?;
    let mut reordered_max = 0;
    for _ in 0..=if all_layers { sub_layers } else { 0 } {
        numbers(bits, 1)?; // buffering
        reordered_max = at_most(bits.read_ue("sps_max_num_reorder_pics")?, PICTURES_MAX)?;
        numbers(bits, 1)?; // latency
    }
    let sequence = Sequence {
        separate_colour_planes,
        order_low_bits,
        reordered_max,
    };
    // What follows only leads to the frame rate: a stream can do without.
    let frame_rate = timing(bits, order_low_bits).ok().flatten();
    Ok((id, sequence, frame_rate))
}

/// From the sizes of coding blocks to the timing of the video usability information.
fn timing(bits: &mut Bits<'_>, order_low_bits: u32) -> Result<Option<FrameRate>, Trouble> {
    numbers(bits, 6)?; // block sizes and depths
    if bits.read_bit("scaling_list_enabled_flag")?
        && bits.read_bit("sps_scaling_list_data_present_flag")?
    {
        scaling_lists(bits)?;
    }
    bits.skip(2, "amp_enabled_flag, sample_adaptive_offset_enabled_flag")?;
    if bits.read_bit("pcm_enabled_flag")? {
        bits.skip(8, "pcm_sample_bit_depths")?;
        numbers(bits, 2)?;
        bits.skip(1, "pcm_loop_filter_disabled_flag")?;
    }
    reference_picture_sets(bits)?;
    if bits.read_bit("long_term_ref_pics_present_flag")? {
        for _ in 0..at_most(bits.read_ue("num_long_term_ref_pics_sps")?, 32)? {
            bits.skip(order_low_bits + 1, "lt_ref_pic_poc_lsb_sps")?;
        }
    }
    bits.skip(
        2,
        "sps_temporal_mvp_enabled_flag, strong_intra_smoothing_enabled_flag",
    )?;
    if !bits.read_bit("vui_parameters_present_flag")? {
        return Ok(None);
    }
    skip_to_timing(bits)?;
    if !bits.read_bit("vui_timing_info_present_flag")? {
        return Ok(None);
    }
    let units = bits.read::<32, u32>("vui_num_units_in_tick")?;
    let scale = bits.read::<32, u32>("vui_time_scale")?;
    Ok(FrameRate::new(scale, units))
}

/// Section 7.3.3.
fn profile_tier_level(bits: &mut Bits<'_>, sub_layers: u32) -> Result<(), Trouble> {
    const PROFILE_BITS: u32 = 88;
    const LEVEL_BITS: u32 = 8;
    bits.skip(PROFILE_BITS + LEVEL_BITS, "general_profile")?;
    let mut skipped = 0;
    for _ in 0..sub_layers {
        let has_profile = bits.read_bit("sub_layer_profile_present_flag")?;
        let has_level = bits.read_bit("sub_layer_level_present_flag")?;
        skipped += u32::from(has_profile) * PROFILE_BITS + u32::from(has_level) * LEVEL_BITS;
    }
    if sub_layers > 0 {
        bits.skip(2 * (8 - sub_layers), "reserved_zero_2bits")?;
    }
    Ok(bits.skip(skipped, "sub_layer_profiles")?)
}

/// Section 7.3.4.
fn scaling_lists(bits: &mut Bits<'_>) -> Result<(), Trouble> {
    for size in 0..4_u32 {
        let lists = if size == 3 { 2 } else { 6 };
        for _ in 0..lists {
            let count = if bits.read_bit("scaling_list_pred_mode_flag")? {
                64.min(1 << (4 + 2 * size)) + u32::from(size > 1)
            } else {
                1
            };
            numbers(bits, count)?;
        }
    }
    Ok(())
}

/// Section 7.3.7 for each set of the sequence.
fn reference_picture_sets(bits: &mut Bits<'_>) -> Result<(), Trouble> {
    let sets = at_most(bits.read_ue("num_short_term_ref_pic_sets")?, 64)?;
    let mut pictures = 0;
    for index in 0..sets {
        if index > 0 && bits.read_bit("inter_ref_pic_set_prediction_flag")? {
            bits.skip(1, "delta_rps_sign")?;
            numbers(bits, 1)?;
            let mut kept = 0;
            for _ in 0..=pictures {
                let is_used = bits.read_bit("used_by_curr_pic_flag")?;
                kept += u32::from(is_used || bits.read_bit("use_delta_flag")?);
            }
            pictures = at_most(kept, PICTURES_MAX)?;
            continue;
        }
        let negative = at_most(bits.read_ue("num_negative_pics")?, PICTURES_MAX)?;
        let positive = at_most(bits.read_ue("num_positive_pics")?, PICTURES_MAX - negative)?;
        pictures = negative + positive;
        for _ in 0..pictures {
            numbers(bits, 1)?;
            bits.skip(1, "used_by_curr_pic_flag")?;
        }
    }
    Ok(())
}

/// Section E.2.1, up to `vui_timing_info_present_flag`.
fn skip_to_timing(bits: &mut Bits<'_>) -> Result<(), Trouble> {
    const EXTENDED_ASPECT_RATIO: u32 = 255;
    if bits.read_bit("aspect_ratio_info_present_flag")?
        && bits.read::<8, u32>("aspect_ratio_idc")? == EXTENDED_ASPECT_RATIO
    {
        bits.skip(32, "sar_width, sar_height")?;
    }
    if bits.read_bit("overscan_info_present_flag")? {
        bits.skip(1, "overscan_appropriate_flag")?;
    }
    if bits.read_bit("video_signal_type_present_flag")? {
        bits.skip(4, "video_format, video_full_range_flag")?;
        if bits.read_bit("colour_description_present_flag")? {
            bits.skip(24, "colour_description")?;
        }
    }
    if bits.read_bit("chroma_loc_info_present_flag")? {
        numbers(bits, 2)?;
    }
    bits.skip(
        3,
        "neutral_chroma_indication_flag, field_seq_flag, frame_field_info_present_flag",
    )?;
    if bits.read_bit("default_display_window_flag")? {
        numbers(bits, 4)?;
    }
    Ok(())
}

/// Passes over Exp-Golomb numbers, signed or not: both have the same length.
fn numbers(bits: &mut Bits<'_>, count: u32) -> Result<(), Trouble> {
    for _ in 0..count {
        bits.read_ue("number")?;
    }
    Ok(())
}

fn at_most(value: u32, most: u32) -> Result<u32, Trouble> {
    if value > most {
        return Err(Trouble::Damaged);
    }
    Ok(value)
}
