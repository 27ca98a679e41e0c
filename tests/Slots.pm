# For prove (tests/run.sh): which tests run beside each other, and what was skipped.
#
# Two lanes share prove's jobs as slots. A test that computes takes as many as its wrapper says, "# slots 8"
# (tests/plan.sh), at most all but one, so that a single process runs beside ranks that wait for each other; a test that
# mostly waits ("# slots 0") takes one of the other lane, so that it keeps no core from those that compute. With a single
# job there is one lane. A test starts when its slots are free: its time limit begins then. The longest is first, by
# the files of recorded times, tests/costs and BUILD/costs (lines "FOLDER-NAME SECONDS"; the second counts). What does
# not fit yet is not starved: later tests may pass it only in slots that it leaves.
#
# At the end the skips are counted by reason. BUILD/t/skips has a line for each: the test, a tab, "all", the case or
# "part" (a test said "# skipped: REASON" within a case, harness_skipped), a tab, the reason.
package Slots;
use strict;
use warnings;
use parent 'TAP::Harness';

sub make_scheduler {
    my ($self, @tests) = @_;
    return Slots::Scheduler->new($self->jobs, map { ref $_ ? $_ : [$_, $_] } @tests);
}

sub runtests {
    my ($self, @tests) = @_;
    my @skips;
    $self->{skips} = \@skips;
    $self->callback(made_parser => sub {
        my ($parser, $test) = @_;
        my $name = plain_name($test->[0]);
        $parser->callback(plan => sub { push @skips, [$name, 'all', reason($_[0])] if $_[0]->has_skip });
        $parser->callback(test => sub {
            push @skips, [$name, $_[0]->description =~ s/^- //r, reason($_[0])] if $_[0]->has_skip;
        });
        my %said;
        $parser->callback(comment => sub {
            my ($why) = $_[0]->comment =~ /^skipped: (.+)/ or return;
            push @skips, [$name, 'part', $why] unless $said{$why}++;
        });
    });
    return $self->SUPER::runtests(@tests);
}

sub plain_name {
    my ($file) = @_;
    return $file =~ s{^.*/|\.t$}{}gr;
}

sub reason {
    my ($result) = @_;
    return $result->explanation || 'no reason is given';
}

sub summary {
    my ($self, $aggregate, @rest) = @_;
    $self->SUPER::summary($aggregate, @rest);
    my ($first) = $aggregate->descriptions;
    write_skips($self->{skips}, $first =~ s{[^/]*$}{skips}r) if $first;
    my %by;
    push @{ $by{ $_->[2] } }, $_ for @{ $self->{skips} };
    for my $why (sort { @{ $by{$b} } <=> @{ $by{$a} } || $a cmp $b } keys %by) {
        my (%number, %names);
        $number{ $_->[1] =~ /^(all|part)$/ ? $1 : 'case' }++, $names{ $_->[0] } = 1 for @{ $by{$why} };
        my @what = map { $number{ $_->[0] } ? count($number{ $_->[0] }, $_->[1]) : () }
            ['all', 'test'], ['case', 'case'], ['part', 'part of a case'];
        printf "%s skipped: %s (%s)\n", join(' and ', @what), $why, join(', ', sort keys %names);
    }
    return;
}

sub count {
    my ($number, $what) = @_;
    return "$number $what" =~ s/^(?!1 )(\d+ \w+)/$1s/r;
}

sub write_skips {
    my ($skips, $file) = @_;
    open my $out, '>', $file or die "$file: $!\n";
    print $out join("\t", @$_), "\n" for @$skips;
    close $out or die "$file: $!\n";
    return;
}

package Slots::Scheduler;
use strict;
use warnings;
use TAP::Parser::Scheduler::Job;
use TAP::Parser::Scheduler::Spinner;

sub new {
    my ($class, $jobs, @tests) = @_;
    my %seconds;
    my @lanes = map { { slots => $_, waiting => [], running => {} } } int(($jobs + 1) / 2), int($jobs / 2);
    read_costs(\%seconds, $_) for 'tests/costs', @tests ? $tests[0][0] =~ s{t/[^/]*$}{costs}r : ();
    for my $test (@tests) {
        my $name = Slots::plain_name($test->[0]) =~ s/-np[0-9-]*$//r;
        my $takes = read_slots($test->[0]);
        my $lane  = $lanes[ $takes == 0 && $lanes[1]{slots} ? 1 : 0 ];
        push @{ $lane->{waiting} }, {
            job     => TAP::Parser::Scheduler::Job->new(@$test),
            takes   => least(most($takes, 1), most($lane->{slots} - 1, 1)),
            seconds => $seconds{$name} // ($test->[0] =~ /-np0\.t$/ ? 1 : 10),
            passing => 0,
        };
    }
    $_->{waiting} = [sort { $b->{seconds} <=> $a->{seconds} } @{ $_->{waiting} }] for @lanes;
    return bless { lanes => \@lanes }, $class;
}

sub least { return $_[0] < $_[1] ? $_[0] : $_[1] }
sub most  { return $_[0] > $_[1] ? $_[0] : $_[1] }

sub read_slots {
    my ($file) = @_;
    open my $in, '<', $file or return 1;
    while (my $line = <$in>) {
        return $1 if $line =~ /^# slots (\d+)$/;
    }
    return 1;
}

sub read_costs {
    my ($seconds, $file) = @_;
    open my $in, '<', $file or return;
    while (my $line = <$in>) {
        $seconds->{$1} = $2 if $line =~ /^(\S+) (\d+)$/;
    }
    return;
}

sub get_all {
    my ($self) = @_;
    return map { $_->{job} } map { @{ $_->{waiting} } } @{ $self->{lanes} };
}

# The first that waits, or the first behind it that fits into what it leaves of all slots.
sub choose {
    my ($lane) = @_;
    my ($free, $left) = ($lane->{slots}) x 2;
    my $waiting = $lane->{waiting};
    return unless @$waiting;
    for (values %{ $lane->{running} }) {
        $free -= $_->{takes};
        $left -= $_->{takes} if $_->{passing};
    }
    $left -= $waiting->[0]{takes};
    return 0 if $waiting->[0]{takes} <= $free;
    for my $at (1 .. $#$waiting) {
        my $takes = $waiting->[$at]{takes};
        return $at if $takes <= $free && $takes <= $left;
    }
    return;
}

sub get_job {
    my ($self) = @_;
    for my $lane (@{ $self->{lanes} }) {
        my $at = choose($lane);
        return start($lane, $at) if defined $at;
    }
    return unless get_all($self);
    return TAP::Parser::Scheduler::Spinner->new;
}

sub start {
    my ($lane, $at) = @_;
    my ($waiting, $running) = @$lane{qw(waiting running)};
    my ($test) = splice @$waiting, $at, 1;
    # Nothing is being passed any more when the first one starts.
    $_->{passing} = 0 for $at == 0 ? values %$running : ();
    $test->{passing} = $at > 0;
    $running->{ $test->{job} } = $test;
    $test->{job}->on_finish(sub { delete $running->{ $test->{job} } });
    return $test->{job};
}

1;
