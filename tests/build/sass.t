#!/bin/bash
# Tests tools/sass.sh, which counts the instructions that a warp issues for a tile of attention: on a synthetic
# listing and, if nvcc and cuobjdump are installed, against the limits of the kernels for heads of 64.
set -eu
. tests/lib.sh

# A loop from 0x10 to 0x80 inside a larger one: a branch around a wide load, which the path includes, two
# ways to the product, of which the path takes the shorter, and a loop without products.
listing() {
    cat <<'END'
 Function small:
  REG:40 STACK:8 SHARED:0 LOCAL:0
		Function : small
        /*0000*/                   MOV R1, R2 ;
        /*0010*/              @!P0 BRA 0x30 ;                         /* 0x1 */
        /*0020*/                   LDGSTS.E.BYPASS.128 [R5], desc[UR8][R76.64] ;
        /*0030*/               @P1 BRA 0x60 ;
        /*0040*/                   IMAD R3, R3, R3, R3 ;
        /*0050*/                   IMAD R3, R3, R3, R3 ;
        /*0060*/                   HMMA.16816.F32.BF16 R8, R4, R2, R8 ;
        /*0070*/                   MUFU.EX2 R3, R3 ;
        /*0080*/               @P2 BRA 0x10 ;
        /*0090*/                   FADD R3, R3, R3 ;
        /*00a0*/               @P3 BRA 0x90 ;
        /*00b0*/               @P4 BRA 0x0 ;
        /*00c0*/                   EXIT ;
        /*00d0*/                   BRA 0xd0;
END
}

# Slots 6: two branches, the copy, the product, the exponential, the branch back; clocks 3 more.
counted() {
    listing | awk -v pattern=. -f tools/sass.awk >"$dir/table"
    cat "$dir/table"
    [ "$(wc -l <"$dir/table")" = 2 ] &&
        [ "$(awk 'NR == 2 { print $1, $2, $3, $5, $14, $15, $16, $17 }' "$dir/table")" = "6 9 1 1 3 40 8 small" ]
}

# within KERNEL COLUMN MOST: for the tile that is not masked, the kernel's shortest loop
within() {
    grep "$1"ILi64E13__nv_bfloat16Lb0ELb1ELb0 "$dir/kernels" | sort -n | head -n 1 >"$dir/row"
    cat "$dir/kernels"
    awk -v column="$2" -v most="$3" '{ found = $column <= most } END { exit !found }' "$dir/row"
}

check "the path through a loop is counted" counted
nvcc=$(sed -n 's/^CUDA_NVCC := //p' "$BUILD/cuda.mk" 2>/dev/null || true)
export CUOBJDUMP=${CUOBJDUMP:-${nvcc%/*}/cuobjdump}
if [ -e "$BUILD/libtrine_cuda.so" ] && [ -x "$CUOBJDUMP" ]; then
    for part in forward backward; do
        tools/sass.sh "$BUILD/cuda/device/cuda/attention_$part.o" attention_mma
    done >"$dir/kernels"
    check "forward: 350 slots a tile" within attention_mma_forward 1 350
    check "dk, dv: 820 clocks, an HMMA as 4" within attention_mma_keys 2 820
    check "dq: 615 clocks" within attention_mma_dq 2 615
    check "dk, dv: nothing spilled" within attention_mma_keys 16 0
else
    skip "the kernels of nvcc" "no object by nvcc, or no cuobjdump in nvcc's folder; set CUOBJDUMP to its path"
fi
done_testing
