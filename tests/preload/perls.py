# SPDX-License-Identifier: MIT
"""Perl: scalars and hashes, its manuals, copies of the whole interpreter, big numbers."""

from sandbox import case


@case("perl")
def perl(sandbox):
    return sandbox.run("perl", "-e", r"""
use strict;
my (%words, @lists);
for my $i (1 .. 150000) {
  my $key = "k" . ($i * 7919 % 20011);
  $words{$key} .= chr(97 + $i % 26);
  push @{$lists[$i % 500]}, $key if $i % 3 == 0;
  delete $words{"k" . ($i % 20011)} if $i % 7 == 0;
}
my $text = join ",", map { "$_=$words{$_}" } sort keys %words;
my $count = () = $text =~ /([a-z])\1/g;
my $sum = unpack("%32C*", $text);
print length($text), " $count $sum\n";
print scalar(@$_), " " for @lists[0 .. 20];
my $tree; for my $i (1 .. 20000) { $tree = { left => $tree, value => "v$i" }; $tree = undef if $i % 1000 == 0 }
print sprintf("%s\n", reverse sort { $a <=> $b } map { $_ * 31 % 1009 } 1 .. 5000);
""")


# Perl's own manuals in three forms: many objects, large strings, the most expressions of any program at hand.
@case("perl", length="slow")
def perl_pod(sandbox):
    return sandbox.run("perl", "-e", r"""
use strict; use Config; use File::Find; use Pod::Man; use Pod::Text; use Pod::Checker; use Pod::Simple::XMLOutStream;
my @files; find(sub { push @files, $File::Find::name if /\.(pm|pod)$/ && -s > 20000 }, $Config{privlibexp});
@files = (sort @files)[0 .. 79];
for my $file (grep { defined } @files) {
  my %made;
  for my $form (qw(Pod::Man Pod::Text Pod::Simple::XMLOutStream)) {
    my $parser = $form->new;
    $parser->output_string(\$made{$form});
    $parser->parse_file($file);
  }
  print join(" ", $file =~ m{([^/]+)$}, map { length($made{$_}) . ":" . unpack("%32W*", $made{$_}) } sort keys %made), "\n";
}
""")


# A thread of Perl is a copy of the whole interpreter, freed by another thread than the one that made it.
@case("perl", length="slow")
def perl_threads(sandbox):
    return sandbox.run("perl", "-e", r"""
use strict; use threads; use threads::shared; use Thread::Queue; use JSON::PP; use Storable qw(freeze thaw);
my %table = map { ("key$_" => [map { {n => $_, text => "x" x ($_ % 40)} } 1 .. 20]) } 1 .. 400;
my $queue = Thread::Queue->new;
sub work {
  my ($seed) = @_;
  my $sum = 0;
  for my $round (1 .. 4) {
    my $copy = thaw(freeze(\%table));
    delete $copy->{"key" . ($_ * $seed % 400)} for 1 .. 100;
    my $text = JSON::PP->new->canonical->encode($copy);
    $sum = ($sum * 31 + unpack("%32C*", $text)) % 1000003;
    $queue->enqueue("$seed:$round:" . length $text);
  }
  return $sum;
}
for my $turn (1 .. 3) {
  my @threads = map { threads->create(\&work, $_ + $turn) } 1 .. 4;
  print join(" ", map { $_->join } @threads), "\n";
}
$queue->end;
my @all; while (defined(my $item = $queue->dequeue)) { push @all, $item }
print scalar(@all), " ", join(",", sort @all), "\n";
""")


@case("perl", length="slow")
def perl_numbers(sandbox):
    return sandbox.run("perl", "-e", r"""
use strict; use Math::BigInt lib => "Calc"; use Encode; use Unicode::Normalize;
use Compress::Zlib; use Digest::SHA qw(sha256_hex);
my ($a, $b) = (Math::BigInt->new(1), Math::BigInt->new(1));
for (1 .. 6000) { ($a, $b) = ($b, $a + $b) }
print sha256_hex("$a"), "\n";
my $text = join "", map { chr(0x100 + $_ * 37 % 0x5000) } 1 .. 60000;
my $bytes = encode("UTF-8", NFD($text));
print length($bytes), " ", sha256_hex(encode("UTF-16LE", NFC(decode("UTF-8", $bytes)))), "\n";
my $packed = Compress::Zlib::memGzip($bytes x 8);
print length(Compress::Zlib::memGunzip($packed)), "\n";
my %seen; $seen{$1}++ while $text =~ /(\w{1,3})(?=\w)/g;
print scalar(keys %seen), " ", join(",", map { ord } (sort keys %seen)[0 .. 20]), "\n";
my $nest = "(" x 2000 . ")" x 2000; my $deep; $deep = qr/\((?:(??{ $deep })|[^()])*\)/;
my $balanced = qr/(\((?:[^()]++|(?1))*\))/; print length(($nest =~ $balanced)[0]), "\n";
""")
