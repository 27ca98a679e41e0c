# Whether the figures of pages are those of docs/measured.md. Usage: measured.pl LIST PAGE...; faults on standard output,
# one a line; status 1 if there is one. Docs/measured.md says what a figure is, and how a block of text is marked.
use strict;
use warnings;

# A number with a unit of time or rate, a percentage, "N times as", or with two decimals, as ratios have.
my $FIGURE = qr{
    (?<![\w./]) (\d+(?:,\d{3})*(?:\.\d+)?) \s? (?: %|(?:s|ms|us|µs|ns|min|minutes?|hours?|seconds?)\b(?!')|[MG]B/s|[GT]FLOP/s|
        tokens/s|times\ (?:as|the)\b|CPU\ (?:s|seconds)\b ) |
    (?<![\w./]) (\d\.\d\d+) (?!\.?\d|e[-\d])
}x;
my $VERSION = qr/(?:glibc|PyTorch|oneDNN|GCC|Clang|MPI|MPICH|NCCL|Spack|Python|Linux|Debian|Ubuntu|transformers|version|tokenizers`?|BpeTrainer`?) \d[\d.]*/;

my ($list, @pages) = @ARGV;
my $faults = 0;
sub fault { print "@_\n"; $faults++ }

sub text_of {
    open my $file, '<', $_[0] or die "$_[0]: $!\n";
    local $/;
    return <$file>;
}

# Blocks of a page: [line, text], between empty lines, without code.
sub blocks_of {
    my ($path) = @_;
    my ($number, $code, $start, $text, @blocks) = (0, 0, 0, '');
    for my $line (split(/\n/, text_of($path)), '') {
        $number++;
        $code = !$code if $line =~ /^\s*```/;
        if ($code || $line =~ /^\s*```|^    |^\s*$/) {
            push @blocks, [$start, $text] if $text ne '';
            $text = '';
        } else {
            $start = $number if $text eq '';
            $text .= "$line\n";
        }
    }
    return @blocks;
}

# A number stands there as a whole.
sub has { my ($text, $n) = @_; return $text =~ /(?<![\w.,])\Q$n\E(?!\w|[.,]\d*[1-9])/ }

# ---- The rows of the list

my %rows;
for (split /\n/, text_of($list)) {
    next unless /^\| `/;
    my (undef, $name, $figures, $when, $machine, $command) = split /\s*\|\s*/;
    $name =~ tr/`//d;
    fault("$list: \"$name\" is there twice") if $rows{$name};
    fault("$list: \"$name\" has no date and tree: $when") unless $when =~ /^2\d{3}-\d\d-\d\d, [0-9a-f]{8}$/;
    fault("$list: \"$name\" has no machine, or no command") unless $machine && $command;
    $rows{$name} = {numbers => [$figures =~ /(?<![\w.])(\d+(?:,\d{3})*(?:\.\d+)?(?:e-\d+)?)/g], text => ''};
}

# ---- The pages

for my $page (@pages) {
    for (blocks_of($page)) {
        my ($line, $text) = @$_;
        my (@measured, @stated, $held);
        while ($text =~ /<!-- (\w+): (.*?) -->/g) {
            my ($kind, @names) = ($1, split ' ', $2);
            if ($kind eq 'measured') { push @measured, @names }
            elsif ($kind eq 'stated') { push @stated, @names }
            elsif ($kind eq 'held') { $held = 1 }
            else { fault("$page:$line: \"$kind\" is no marker; valid: measured, stated, held") }
            $kind eq 'measured' or -e $_ or fault("$page:$line: there is no file $_") for @names;
        }
        my $known = '';
        for (@measured) {
            if ($rows{$_}) { $rows{$_}{text} .= $text, $known .= " @{$rows{$_}{numbers}}" }
            else { fault("$page:$line: $list has no row \"$_\"") }
        }
        $known .= ' ' . text_of($_) for grep { -e } @stated;
        (my $prose = $text) =~ s/`[^`]*`|\]\([^)]*\)|<!--.*?-->|$VERSION//g;
        while ($prose =~ /$FIGURE/g) {
            my $n = $1 // $2;
            next if $held || has($known, $n);
            fault("$page:$line: " . (@measured || @stated ? "$n is not what its marker says" : "the figure $n has no marker"));
        }
    }
}
for my $name (sort keys %rows) {
    has($rows{$name}{text}, $_) or fault("$list: \"$name\": no page has $_ in a block with its marker") for @{$rows{$name}{numbers}};
}
exit($faults != 0);
