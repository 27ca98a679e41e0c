# What the files of --trace and of the ring say, for tests/trace/*.t: events.pl FILE EXPRESSION, which is Perl and true
# for a file that is as it should be. In it: %other; @e, the events; spans(CATEGORY), those of ph X; time in microseconds.
use strict;
use warnings;
use JSON::PP;
our ($j, @e, %other);

sub spans { my $cat = shift; grep { $_->{ph} eq "X" && $_->{cat} eq $cat } @e }
sub finish { $_[0]{ts} + $_[0]{dur} }
sub why { print "# @_\n"; 0 }
sub step_of { "$_[0]{pid} " . ($_[0]{args}{step} // "e$_[0]{args}{evaluation_after_step}") }

# Each instruction of each step is there once, in its order, and they and the waits add up to the step. (The sum has
# three decimals of a microsecond for each.)
sub complete {
    my (%seen, %sum);
    for my $i (spans("instruction")) {
        my $s = step_of($i);
        return why("$s: position $i->{args}{position} is not ", $seen{$s} // 0) if $i->{args}{position} != ($seen{$s} // 0);
        $seen{$s}++;
    }
    $sum{ step_of($_) } += $_->{dur} for spans("instruction"), spans("wait");
    for my $s (spans("step")) {
        my $of = step_of($s);
        return why("$of: $seen{$of} of $s->{args}{instructions} instructions") if $seen{$of} != $s->{args}{instructions};
        return why("$of: $sum{$of} us of $s->{dur}") if abs($sum{$of} - $s->{dur}) > 0.01 * $s->{dur};
    }
    return scalar spans("step");
}

# The spans of a thread follow each other, so that a viewer does not drop any.
sub apart {
    my %end;
    for my $s (sort { $a->{ts} <=> $b->{ts} } map { spans($_) } qw(instruction wait collective message)) {
        my $thread = "$s->{pid} $s->{tid}";
        return why("$s->{name} at $s->{ts} of $thread overlaps") if $s->{ts} < ($end{$thread} // 0) - 0.002;
        $end{$thread} = finish($s);
    }
    return 1;
}

# Each arrow has two ends, at a send and at a receive of each other, and the receive ends after the send starts; `late`
# microseconds may be added by clocks.
sub arrows {
    my $late = shift // 0;
    my (%from, %to);
    for my $a (grep { $_->{ph} =~ /^[sf]$/ } @e) {
        my $ends = $a->{ph} eq "s" ? \%from : \%to;
        return why("two arrows $a->{id}") if $ends->{ $a->{id} };
        $ends->{ $a->{id} } = $a;
    }
    my %span = map { ("$_->{pid} $_->{ts}" => $_) } spans("message");
    my %last = map { (sprintf("%d %.3f", $_->{pid}, finish($_)) => $_) } spans("message");
    for my $id (keys %from, keys %to) {
        my ($s, $f) = ($from{$id}, $to{$id});
        return why("one end of arrow $id") if !$s || !$f;
        my $send = $span{"$s->{pid} $s->{ts}"} or return why("no send at the start of $id");
        my ($recv) = grep { $_ } map { $last{ sprintf("%d %.3f", $f->{pid}, $f->{ts} + $_) } } 0.001, 0;
        return why("no receive at the end of $id") if !$recv;
        return why("$send->{name} to $recv->{name}") if $send->{name} ne "send" || $recv->{name} ne "recv, wait";
        return why("peers of $id") if $send->{args}{peer} != $f->{pid} || $recv->{args}{peer} != $s->{pid};
        return why("bytes or micro-batches of $id")
            if $send->{args}{bytes} != $recv->{args}{bytes} || $send->{args}{micro_batch} != $recv->{args}{micro_batch};
        return why("$id ends before it starts") if finish($recv) + $late < $send->{ts};
    }
    return scalar keys %from;
}

# The instruction that a rank is in, as the names of processes say.
sub place { my $rank = shift; my ($p) = grep { $_->{name} eq "process_name" && $_->{pid} == $rank } @e; $p->{args}{name} }
sub unfinished { my $rank = shift; grep { $_->{pid} == $rank && $_->{args}{unfinished} } spans("instruction"), spans("wait") }

local $/;
open my $file, "<", $ARGV[0] or die "$ARGV[0]: $!\n";
$j = decode_json(<$file>);
@e = @{ $j->{traceEvents} };
%other = %{ $j->{otherData} };
my $right = eval $ARGV[1];
die $@ if $@;
exit !$right;
