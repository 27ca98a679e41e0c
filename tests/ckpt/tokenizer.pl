# For tests/ckpt/tokenizer.t: a tokenizer.json of byte-level BPE with COUNT tokens: 256 bytes, merges of a letter with each
# LAST, and <|endoftext|>. Usage: perl tokenizer.pl COUNT LAST...
use strict;
use warnings;
use JSON::PP;

my ($count, @last) = @ARGV;
# Bytes as GPT-2's vocabularies write them: printable ones as they are, others from U+0100 on.
my (@bytes, $next);
$next = 256;
for my $byte (0 .. 255) {
    my $prints = ($byte >= 33 && $byte <= 126) || ($byte >= 161 && $byte <= 172) || $byte >= 174;
    push @bytes, chr($prints ? $byte : $next++);
}
my %vocab = map { $bytes[$_] => $_ } 0 .. 255;
my @merges;
for my $last (@last, "a" .. "z") {
    for my $first ("a" .. "z") {
        next if keys %vocab >= $count - 1 || exists $vocab{"$first$last"};
        push @merges, "$first $last";
        $vocab{"$first$last"} = keys %vocab;
    }
}
my $level = {type => "ByteLevel", add_prefix_space => JSON::PP::false, trim_offsets => JSON::PP::true,
    use_regex => JSON::PP::true};
print JSON::PP->new->utf8->canonical->pretty->encode({
    version => "1.0",
    truncation => undef,
    padding => undef,
    normalizer => undef,
    added_tokens => [{id => $count - 1, content => "<|endoftext|>", single_word => JSON::PP::false,
        lstrip => JSON::PP::false, rstrip => JSON::PP::false, normalized => JSON::PP::false,
        special => JSON::PP::true}],
    pre_tokenizer => $level,
    post_processor => $level,
    decoder => $level,
    model => {type => "BPE", dropout => undef, unk_token => undef, continuing_subword_prefix => undef,
        end_of_word_suffix => undef, fuse_unk => JSON::PP::false, byte_fallback => JSON::PP::false,
        vocab => \%vocab, merges => \@merges},
});
