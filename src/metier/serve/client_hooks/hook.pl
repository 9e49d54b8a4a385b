# Asks the resident process of Métier about one event of a client; without its whole answer, Python decides.
#
# `fast_client.py` puts the line that starts Perl above this, and values in the place of names in capitals.
# `resident_socket.py` has the same rules on the side of the process. Compiling is most of what a hook costs:
# there is no `use`, next to no pattern, and what is seldom needed stands at the end, as data.

my $client = $ARGV[0] // '';
my ($data, $path, $received, $is_late) = ('', '', '', 0);
$SIG{PIPE} = 'IGNORE';
$SIG{ALRM} = sub { die "late\n" };
binmode $_ for \*STDIN, \*STDOUT, \*STDERR;

eval {
    die "no client\n" if !length $client || $client =~ tr/a-z0-9-//c;
    alarm 10;
    1 while sysread STDIN, $data, 65536, length $data and length $data <= $MAX_INPUT;
    $data = substr $data, 0, $MAX_INPUT + 1;
    alarm 10;
    ask();
    1;
} or $is_late = $@;
alarm 0;
# "metier CODE LENGTH LENGTH", and then both outputs.
if (index($received, 'metier ') == 0) {
    my $begin = 1 + index $received, "\n";
    my ($code, $out, $err, @more) = split / /, substr $received, 7, $begin - 7;
    my $is_whole = $begin && defined $err && !@more && !("$code$out$err" =~ tr/0-9\n//c);
    if ($is_whole && $code < 256 && length $received == $begin + $out + $err) {
        syswrite STDERR, substr $received, $begin + $out;
        # An answer that did not arrive is none: the client would take it for consent.
        exit($out == syswrite(STDOUT, $received, $out, $begin) ? $code : 2);
    }
}
my ($rest) = do { local $/; <DATA> =~ /(.*)/s };
eval $rest;
exit 3;

sub ask {
    my ($runtime, $folder) = ($ENV{XDG_RUNTIME_DIR} // '', $FALLBACK);
    $folder = "$runtime/metier" if index($runtime, '/') == 0 && is_own($runtime, 0040000);
    # By its whole name, or by the part up to the first `_`.
    my @names = grep { index($NAMES, " $_ ") >= 0 || index($NAMES, ' ' . substr($_, 0, 1 + index $_, '_') . ' ') >= 0 }
        grep { index $_, $OWN } keys %ENV;
    my $identity = join "\0", $PYTHON, map { "$_=$ENV{$_}" } sort @names;
    my $sum = unpack '%32V*', $identity . "\0" x (-length($identity) % 4);
    # The keys of a hash are what Perl trusts.
    ($path) = keys %{{"$folder/$sum-" . length($identity) . '.sock' => 1}};
    return $path = '' if $folder eq '';
    return unless is_own($folder, 0040000) && is_own($path, 0140000);
    socket my $socket, 1, 1, 0 or return;
    connect $socket, $ADDRESS . $path . "\0" or return;
    my $peer = getsockopt $socket, $LEVEL, $PEER;
    return unless defined $peer && length $peer >= 8 && (unpack 'LL', $peer)[1] == $>;
    binmode $socket;
    my $request = "$client " . length($identity) . ' ' . length($data) . "\n$identity$data";
    return unless length $request == syswrite $socket, $request;
    1 while sysread $socket, $received, 65536, length $received and length $received < 4 * $MAX_INPUT;
}

sub is_own {
    my ($kind, @status) = ($_[1], lstat $_[0]);
    return @status && ($status[2] & 0170000) == $kind && $status[4] == $> && !($status[2] & 0077);
}

__DATA__

sub fail {
    syswrite STDERR, "metier hook: $_[0] Run `metier doctor`.\n";
    exit 3;
}

($client) = $client =~ /\A([a-z][a-z0-9-]{0,30})\z/ or fail('The name of a client is missing.');
fail('The client did not send its event.') if $is_late && !length $path && !length $received;
pipe my $reader, my $writer or fail('There is no pipe.');
my $child = fork // fail('There is no process.');
if (!$child) {
    # The client waits until nobody holds its pipes any longer.
    close $_ for $reader, \*STDOUT, \*STDERR;
    binmode $writer;
    syswrite $writer, $data;
    exit 0;
}
close $writer;
open STDIN, '<&', $reader or fail('There is no input.');
close $reader;
# Perl starts nothing while these are as somebody else set them; Python takes the path back.
$ENV{METIER_HOOK_PATH} = $ENV{PATH} if defined $ENV{PATH};
delete @ENV{qw(PATH IFS CDPATH ENV BASH_ENV)};
$SIG{PIPE} = 'DEFAULT';
# It outlives `exec`, and ends a Python that does not decide in time. That is no consent, either.
alarm 30;
my @socket = $path eq '' ? () : ($is_late ? '--late' : '--socket', $path);
{ exec { $PYTHON } $PYTHON, $FLAGS, '-m', 'metier.serve.client_hooks', $client, @socket; }
fail($PYTHON . ' cannot be started.');
