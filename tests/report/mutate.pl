#!/usr/bin/perl
# Mutated logs and traces for tests/report/fuzz.t. Usage: mutate.pl SEED FROM COUNT OUT CORPUS
#
# Input n of a seed is the same whatever else is made: OUT/n has the arguments of trine-report, one a line, and
# OUT/n.0, n.1 the files that they name. CORPUS: a folder of sound logs (.jsonl) and traces (.json), an event a line.
use strict;
use warnings;
use JSON::PP;

my ($seed, $from, $count, $out, $corpus) = @ARGV;
my $json = JSON::PP->new->canonical->allow_nonref->allow_bignum(0)->latin1;
my %files;
for my $path (glob "$corpus/*.json $corpus/*.jsonl") {
    next if $path =~ m{/found};
    open my $file, '<:raw', $path or die "$path: $!";
    chomp(my @lines = <$file>);
    $files{$path} = \@lines;
}
my @logs = grep { /\.jsonl$/ } sort keys %files;
my @traces = grep { /\.json$/ } sort keys %files;

sub one_of { return $_[int rand @_] }
sub chance { return rand() < $_[0] }

# What is written as it is, behind a value of this name.
my @numbers = qw(0 -0 1 -1 2 3 7 0.5 -0.5 1e-9 5e-324 1e-300 1e15 1e16 1e17 1e21 1e300 1.7e308 -1.7e308 1e400 -1e400
    4294967295 4294967296 2147483647 -2147483648 9007199254740991 9007199254740992 9223372036854775807
    18446744073709551616 8640000000000 8640000000001 1e13 65535 65536 99999999);
my @texts = ('', ' ', 'a' x 5000, "\x{fffd}", '</script><script>undefined_function()</script>', '<!--', '<b>x</b>', '&lt;', '__proto__',
    'constructor', 'toString', 'hasOwnProperty', '--', '=', '--=', '--x', '--num-layers=4096', '--pp=64', '--pp=4', '--schedule=zb', '--hidden-size=1e9',
    '--train-iters=0', '--global-batch-size=100000', '--seq-length=1', '--vocab-size=2147483647', 'rank 3 [pp-1 dp0 tp0]', 'rank 3 [pp9999999999 dp0 tp1]: in NORM',
    '[', ']', '[pp1]: waiting', 'FORWARD u1 m1', 'BACKWARD u0 m7', 'BACKWARD_INPUT u0 m0', 'BACKWARD_WEIGHT', 'step', 'instruction', 'wait', 'collective',
    'message', 'ring', 'trace', 'dp', 'world', 'recv', 'X', 'M', 's', 'f', 'NaN', 'Infinity', 'null', "\\", '"', "'", '$&', '$1', '%s%n', '../..', '1', '-1');
# As JSON's text.
my @raw = ('null', 'true', 'false', '[]', '{}', '[null]', '[[]]', '[1,2]', '["a"]', '{"a":1}', '{"length":3}', '{"toString":1,"valueOf":2}',
    '"\ud800"', '"\udc00\ud800"', '"\u2028\u2029"', '"\u0001\u007f"', '"\ufeff\u202e"', "\"\xff\xfe\"", "\"\xc3\"", "\"\xed\xa0\x80\"", '""');

sub literal { # what JSON::PP would not write as it is
    my $draw = rand;
    return one_of(@numbers) if $draw < 0.45;
    return one_of(@raw) if $draw < 0.7;
    return $json->encode(one_of(@texts)) if $draw < 0.95;
    return '[' . join(',', map { literal() } 1 .. int rand 4) . ']';
}

# Every value in a tree: [container, key].
sub places {
    my ($node) = @_;
    my @keys = ref $node eq 'HASH' ? sort keys %$node : ref $node eq 'ARRAY' ? 0 .. $#$node : ();
    return map { my $child = ref $node eq 'HASH' ? $node->{$_} : $node->[$_]; ([$node, $_], places($child)) } @keys;
}
sub at { my ($p) = @_; return ref $p->[0] eq 'HASH' ? \$p->[0]{$p->[1]} : \$p->[0][$p->[1]] }

my @held; # literals that stand in a tree as "\@n@"
sub hold { push @held, $_[0]; return "\@\@$#held\@\@" }
sub written {
    my $text = $json->encode($_[0]);
    1 while $text =~ s/"\@\@(\d+)\@\@"/$held[$1]/g;
    return $text;
}

sub mutate_value {
    my ($tree) = @_;
    my @places = places($tree) or return;
    my $p = one_of(@places);
    my $at = at($p);
    my $draw = rand;
    if ($draw < 0.6) { $$at = hold(literal()) }
    elsif ($draw < 0.68 && ref $p->[0] eq 'HASH') { delete $p->[0]{$p->[1]} }
    elsif ($draw < 0.68) { splice @{$p->[0]}, $p->[1], 1 }
    elsif ($draw < 0.74) { my $q = at(one_of(@places)); ref $$at || ref $$q or ($$at, $$q) = ($$q, $$at) }
    elsif ($draw < 0.8 && defined $$at && !ref $$at && $$at =~ /^-?\d+(\.\d+)?(e[-+]?\d+)?$/i) { $$at = hold(one_of($$at * 1000, -$$at, $$at + 1, $$at * 1e9, $$at / 1000)) }
    elsif ($draw < 0.85 && ref $$at eq 'ARRAY' && @$$at) { push @$$at, (one_of(@$$at)) x one_of(1, 2, 40) }
    elsif ($draw < 0.9 && ref $p->[0] eq 'HASH') { $p->[0]{one_of('step', 'loss', 'run', 'val_loss', 'checkpoint', 'after', 'time', 'args', 'ts', 'dur', 'unfinished', '__proto__', 'skips')} = hold(literal()) }
    elsif ($draw < 0.95) { $$at = hold('[' . written($$at) . ']') }
    else { $$at = hold(written($$at) . ',"' . one_of('step', 'run', 'hosts', 'loss') . '":' . literal()) if ref $p->[0] eq 'HASH' }
}

# A line's object anew, or undef: the line is none.
sub mutate_tree {
    my ($line) = @_;
    my $comma = $line =~ s/,$// ? ',' : '';
    my $tree = eval { $json->decode($line) };
    return undef unless ref $tree eq 'HASH';
    @held = ();
    mutate_value($tree) for 1 .. one_of(1, 1, 1, 2, 3);
    return written($tree) . $comma;
}

# A number, text or name of the line replaced.
sub mutate_token {
    my ($line) = @_;
    my @at;
    while ($line =~ /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null/g) { push @at, [$-[0], $+[0] - $-[0]] unless substr($line, $+[0], 1) eq ":" && chance(0.9) }
    return $line unless @at;
    my $t = one_of(@at);
    substr($line, $t->[0], $t->[1]) = literal();
    return $line;
}

sub mutate_bytes {
    my ($line) = @_;
    return $line unless length $line;
    my $n = int rand length $line;
    my $draw = rand;
    if ($draw < 0.4) { substr($line, $n, 1) = chr int rand 256 }
    elsif ($draw < 0.7) { substr($line, $n, int rand 20) = '' }
    else { substr($line, $n, 0) = substr($line, int rand length $line, int rand 40) }
    return $line;
}

sub mutate_lines {
    my ($lines) = @_;
    my ($n, $k) = (int rand @$lines, int rand @$lines);
    my $draw = rand;
    if ($draw < 0.35) { splice @$lines, $n, one_of(1, 1, 2, 10) }
    elsif ($draw < 0.6) { splice @$lines, $n, 0, $lines->[$k] }
    elsif ($draw < 0.8) { @$lines[$n, $k] = @$lines[$k, $n] }
    elsif ($draw < 0.9) { $#$lines = $n }
    else { splice @$lines, $n, 0, ($lines->[$k]) x one_of(30, 300) }
}

sub mutated {
    my @lines = @{$files{$_[0]}};
    for (1 .. one_of(1, 1, 1, 2, 2, 3, 5, 9)) {
        last unless @lines;
        my ($n, $draw) = (int rand @lines, rand);
        # The first lines say most.
        $n = 0 if chance(0.2);
        if ($draw < 0.7) { $lines[$n] = mutate_tree($lines[$n]) // mutate_token($lines[$n]) }
        elsif ($draw < 0.85) { $lines[$n] = mutate_token($lines[$n]) }
        elsif ($draw < 0.9) { $lines[$n] = mutate_bytes($lines[$n]) }
        else { mutate_lines(\@lines) }
    }
    return join("\n", @lines) . (chance(0.97) ? "\n" : '');
}

sub put {
    my ($path, $text) = @_;
    open my $file, '>:raw', $path or die "$path: $!";
    print $file $text;
    close $file or die "$path: $!";
}

for my $n ($from .. $from + $count - 1) {
    srand($seed * 1000003 + $n);
    my $draw = rand;
    my @from = $draw < 0.45 ? one_of(@logs) : $draw < 0.55 ? (one_of(@logs), one_of(@logs)) : $draw < 0.9 ? one_of(@traces) : (one_of(@logs), one_of(@traces));
    my @words = map { ($from[$_] =~ /\.json$/ ? '--trace' : (), "$out/$n.$_") } 0 .. $#from;
    push @words, '--hardware', 'h100' if $from[0] =~ /jsonl$/ && chance(0.2);
    put("$out/$n.$_", mutated($from[$_])) for 0 .. $#from;
    put("$out/$n", join("\n", @words) . "\n");
}
