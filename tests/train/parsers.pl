# SPDX-License-Identifier: BSD-3-Clause
# parsers.pl FORMAT LOG TABLE: every expression of the table that is for this format must find in each
# iteration line of the log what the line says, as read here: cut at the bars, then at the colons.
use strict;
use warnings;

my ($format, $log, $table) = @ARGV;
my %name = (
    'consumed samples' => 'samples', 'consumed tokens' => 'tokens',
    'elapsed time per iteration (ms)' => 'ms', 'elapsed time per iteration (s)' => 'seconds',
    'throughput per GPU (TFLOP/s/GPU)' => 'tflops', 'lm loss' => 'loss', 'grad norm' => 'norm',
    'samples per second' => 'sps', 'TFLOPs' => 'deepspeed',
);

sub fields {
    my %f;
    my ($first, @rest) = split /\s*\|\s*/, $_[0];
    @f{qw(iteration iterations)} = $first =~ m{(\d+)/ *(\d+)$};
    for (@rest) {
        my ($key, $value) = split /: */;
        $f{$name{$key}} = $value if exists $name{$key};
    }
    return \%f;
}

open my $in, '<', $log or die "$log: $!\n";
my @all = map { s/\n//r } <$in>;
my @lines = grep { /^ (\[[^]]*\] )?iteration / } @all;
open $in, '<', $table or die "$table: $!\n";
my ($used, $bad) = (0, 0);
while (<$in>) {
    chomp;
    next if /^#/;
    my ($formats, $groups, $whose, $expression) = split /\t/;
    next if !grep { $_ eq $format } split /,/, $formats;
    $used++;
    if ($groups eq '*') {
        next if grep { /$expression/ } @all;
        print "$whose: /$expression/ is nowhere in the log\n";
        $bad++;
        next;
    }
    for my $line (@lines) {
        my $f = fields($line);
        my $wanted = join ' ', map { $f->{$_} // "(no $_)" } split ' ', $groups;
        my @got = $line =~ /$expression/;
        next if "@got" eq $wanted;
        print "$whose: /$expression/ reads \"@got\", not \"$wanted\" in: $line\n";
        $bad++;
    }
}
printf "%d expressions read %d lines of %s\n", $used, scalar @lines, $format;
exit($bad || !$used || !@lines ? 1 : 0);
