//! Headers of H.264 (ITU-T H.264, sections 7.3.2 to 7.3.4, 7.4.1.2.4 and 8.2.1), read by
//! `h264-reader`.

use h264_reader::Context;
use h264_reader::nal::pps::{PicParameterSet, SliceGroup};
use h264_reader::nal::slice::{
    DecRefPicMarking, FieldPic, MemoryManagementControlOperation, PicOrderCountLsb, SliceHeader,
};
use h264_reader::nal::sps::{PicOrderCntType, SeqParameterSet};
use h264_reader::nal::{NalHeader, UnitType};

use super::FrameRate;
use super::bits::Bits;
use super::slice::{Picture, Slice, Trouble, nearest};

/// Most frames that any level reorders (H.264, A.3.1).
const REORDERED_MAX: u32 = 16;

/// Parameter sets, and what the slice before said.
#[derive(Default)]
pub(crate) struct Headers {
    context: Context,
    frame_rate: Option<FrameRate>,
    /// Of the picture that slices belong to now.
    current: Option<PictureKey>,
    /// Order count of the reference picture before, in decoding order.
    reference_order: i64,
    pictures: i64,
}

/// What tells the slices of one primary coded picture from those of the next (section 7.4.1.2.4).
#[derive(Clone, Copy, PartialEq, Eq)]
struct PictureKey {
    frame_num: u16,
    picture_set: u8,
    is_reference: bool,
    idr_pic_id: Option<u32>,
    order: Option<(u32, i32)>,
}

impl Headers {
    pub(crate) fn sequence_set(&mut self, nal: &[u8]) -> Result<(), Trouble> {
        let set = SeqParameterSet::from_bits(Bits::behind_header(nal, 1));
        let set = set.map_err(|_| Trouble::Damaged)?;
        if self.frame_rate.is_none() {
            self.frame_rate = frame_rate(&set);
        }
        self.context.put_seq_param_set(set);
        Ok(())
    }

    pub(crate) fn picture_set(&mut self, nal: &[u8]) -> Result<(), Trouble> {
        let set = PicParameterSet::from_bits(&self.context, Bits::behind_header(nal, 1));
        let mut set = set.map_err(|_| Trouble::Damaged)?;
        // A number per macroblock that nothing here asks for.
        if matches!(
            set.slice_groups,
            Some(SliceGroup::ExplicitAssignment { .. })
        ) {
            set.slice_groups = None;
        }
        self.context.put_pic_param_set(set);
        Ok(())
    }

    pub(crate) fn end_picture(&mut self) {
        self.current = None;
    }

    pub(crate) fn frame_rate(&self) -> Option<FrameRate> {
        self.frame_rate
    }

    pub(crate) fn slice(&mut self, nal: &[u8]) -> Result<Slice, Trouble> {
        let first = nal.first().ok_or(Trouble::Damaged)?;
        let nal_header = NalHeader::new(*first).map_err(|_| Trouble::Damaged)?;
        let mut bits = Bits::behind_header(nal, 1);
        let (header, sequence, picture_set) =
            SliceHeader::from_bits(&self.context, &mut bits, nal_header, None)
                .map_err(|_| Trouble::Damaged)?;
        if header.field_pic != FieldPic::Frame {
            return Err(Trouble::Unsupported(
                "its pictures are single fields (interlaced video)",
            ));
        }
        let key = PictureKey {
            frame_num: header.frame_num,
            picture_set: picture_set.pic_parameter_set_id.id(),
            is_reference: nal_header.nal_ref_idc() != 0,
            idr_pic_id: header.idr_pic_id,
            order: match header.pic_order_cnt_lsb {
                Some(PicOrderCountLsb::Frame(low)) => Some((low, 0)),
                Some(PicOrderCountLsb::FieldsAbsolute {
                    pic_order_cnt_lsb,
                    delta_pic_order_cnt_bottom,
                }) => Some((pic_order_cnt_lsb, delta_pic_order_cnt_bottom)),
                _ => None,
            },
        };
        // Encoders that number all their IDR pictures alike exist; the first macroblock tells those
        // apart.
        let is_first = header.first_mb_in_slice == 0 && header.redundant_pic_cnt.unwrap_or(0) == 0;
        if !is_first && self.current == Some(key) {
            return Ok(Slice::Continues);
        }
        let order_type = order_type(sequence)?;
        let picture = Picture {
            order: 0,
            restarts: restarts(nal_header, &header),
            reordered_max: reordered_max(sequence),
        };
        self.current = Some(key);
        let order = self.order(order_type, &key, picture.restarts);
        Ok(Slice::Begins(Picture { order, ..picture }))
    }

    /// Section 8.2.1: of the two fields of a frame, the earlier one.
    fn order(&mut self, low_bits: Option<u32>, key: &PictureKey, restarts: bool) -> i64 {
        let (Some(low_bits), Some((low, bottom))) = (low_bits, key.order) else {
            // Type 2: shown as decoded.
            self.pictures += 1;
            return self.pictures;
        };
        let is_idr = key.idr_pic_id.is_some();
        let top = if is_idr {
            i64::from(low)
        } else {
            nearest(self.reference_order, low, low_bits)
        };
        if restarts && !is_idr {
            // Operation 5 makes the picture the origin of those that follow (formula 8-1).
            self.reference_order = 0_i64.max(-i64::from(bottom));
            return 0;
        }
        if key.is_reference {
            self.reference_order = top;
        }
        top + i64::from(bottom).min(0)
    }
}

/// An IDR picture, or one that ends the use of all before it (memory management control operation
/// 5).
fn restarts(nal_header: NalHeader, header: &SliceHeader) -> bool {
    let is_idr = nal_header.nal_unit_type() == UnitType::SliceLayerWithoutPartitioningIdr;
    let is_five = |operation: &MemoryManagementControlOperation| {
        matches!(
            operation,
            MemoryManagementControlOperation::AllRefPicturesUnused
        )
    };
    is_idr
        || matches!(&header.dec_ref_pic_marking, Some(DecRefPicMarking::Adaptive(operations)) if operations.iter().any(is_five))
}

/// Bits of the order count in slices (type 0); `None` for type 2.
fn order_type(sequence: &SeqParameterSet) -> Result<Option<u32>, Trouble> {
    match sequence.pic_order_cnt {
        PicOrderCntType::TypeZero {
            log2_max_pic_order_cnt_lsb_minus4,
        } => Ok(Some(u32::from(log2_max_pic_order_cnt_lsb_minus4) + 4)),
        PicOrderCntType::TypeTwo => Ok(None),
        PicOrderCntType::TypeOne { .. } => {
            Err(Trouble::Unsupported("its picture order count is of type 1"))
        }
    }
}

/// `max_num_reorder_frames`, and what is inferred where it is absent (sections E.2.1 and A.3.1).
fn reordered_max(sequence: &SeqParameterSet) -> usize {
    const BASELINE: u8 = 66;
    let profile = sequence.profile_idc.into();
    let is_intra_only =
        sequence.constraint_flags.flag3() && matches!(profile, 44 | 86 | 100 | 110 | 122 | 244);
    let order_is_decoding_order = matches!(sequence.pic_order_cnt, PicOrderCntType::TypeTwo);
    let said = sequence
        .vui_parameters
        .as_ref()
        .and_then(|vui| vui.bitstream_restrictions.as_ref());
    let frames = if order_is_decoding_order || is_intra_only || profile == BASELINE {
        0
    } else if let Some(restrictions) = said {
        restrictions.max_num_reorder_frames
    } else {
        let macroblocks =
            u64::from(sequence.pic_width_in_mbs()) * u64::from(sequence.pic_height_in_map_units());
        let limits = sequence.level().limits();
        let buffer = limits.map_or(u32::MAX, |limits| limits.max_dpb_mbs);
        (u64::from(buffer) / macroblocks.max(1)).min(u64::from(REORDERED_MAX)) as u32
    };
    frames.min(REORDERED_MAX) as usize
}

/// Formula E-45: a frame lasts two ticks.
fn frame_rate(sequence: &SeqParameterSet) -> Option<FrameRate> {
    let timing = sequence.vui_parameters.as_ref()?.timing_info.as_ref()?;
    match timing.num_units_in_tick.checked_mul(2) {
        Some(units) => FrameRate::new(timing.time_scale, units),
        None => FrameRate::new(timing.time_scale / 2, timing.num_units_in_tick),
    }
}
