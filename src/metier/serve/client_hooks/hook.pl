# Asks the resident process of Métier about one event of a client; without its whole answer, Python decides.
#
# `fast_client.py` puts the line that starts Perl and the settings above this. There is no `use`: a module costs more
# than all of this. `resident_socket.py` has the same rules on the side of the process.

my ($client) = ($ARGV[0] // '') =~ /\A([a-z][a-z0-9-]{0,30})\z/;
fail('hook: the name of a client is missing.') unless defined $client;
my ($is_late, $data, $path) = (0, '', '');
$SIG{PIPE} = 'IGNORE';

eval {
    local $SIG{ALRM} = sub { die "late\n" };
    alarm 10;
    binmode STDIN;
    while (length $data <= $MAX_INPUT) {
        my $left = $MAX_INPUT + 1 - length $data;
        my $count = sysread STDIN, $data, $left < 65536 ? $left : 65536, length $data;
        die "unreadable\n" unless defined $count;
        last unless $count;
    }
    alarm 0;
    1;
} or fail('hook: the client did not send its event.');

my $answer = eval {
    local $SIG{ALRM} = sub { die "late\n" };
    alarm 10;
    my $found = ask();
    alarm 0;
    $found;
};
$is_late = 1 if $@ eq "late\n";
alarm 0;

if (defined $answer && $answer =~ /\Ametier ([0-9]{1,3}) ([0-9]{1,9}) ([0-9]{1,9})\n/) {
    my ($code, $out, $err, $begin) = ($1, $2, $3, $+[0]);
    if (length $answer == $begin + $out + $err && $code < 256) {
        put(\*STDERR, substr $answer, $begin + $out);
        # An answer that did not arrive is none: the client would take it for consent.
        exit(put(\*STDOUT, substr $answer, $begin, $out) ? $code : 2);
    }
}
decide_in_python();

sub ask {
    my ($folder) = $FALLBACK;
    my ($runtime) = ($ENV{XDG_RUNTIME_DIR} // '') =~ m{\A(/.*)\z}s;
    if (defined $runtime && is_own($runtime, 0040000)) {
        $folder = $runtime =~ m{/\z} ? "${runtime}metier" : "$runtime/metier";
    }
    return unless length $folder;
    my $identity = join "\0", $PYTHON, map { "$_=$ENV{$_}" } sort grep { /$VARIABLES/o && !/$OWN/o } keys %ENV;
    my $padded = $identity . "\0" x (-length($identity) % 4);
    my ($name) = sprintf('%08x-%d', unpack('%32V*', $padded), length $identity) =~ /\A([0-9a-f]+-[0-9]+)\z/;
    $path = "$folder/$name.sock";
    if (length $path > $MAX_PATH) {
        $path = '';
        return;
    }
    return unless is_own($folder, 0040000) && is_own($path, 0140000);
    socket my $socket, 1, 1, 0 or return;
    connect $socket, $IS_BSD ? pack('CCa*x', 0, 1, $path) : pack('Sa*x', 1, $path) or return;
    my $peer = getsockopt $socket, $LEVEL, $PEER;
    return unless defined $peer && length $peer >= 8 && (unpack 'LL', $peer)[1] == $>;
    put($socket, "$client " . length($identity) . ' ' . length($data) . "\n$identity$data") or return;
    my $received = '';
    while (1) {
        my $count = sysread $socket, $received, 65536, length $received;
        return unless defined $count;
        return $received unless $count;
        return if length $received > 4 * $MAX_INPUT;
    }
}

sub is_own {
    my ($place, $kind) = @_;
    my @status = lstat $place;
    return @status && ($status[2] & 0170000) == $kind && $status[4] == $> && !($status[2] & 0077);
}

sub put {
    my ($to, $text) = @_;
    binmode $to;
    my $done = 0;
    while ($done < length $text) {
        my $count = syswrite $to, $text, length($text) - $done, $done;
        return 0 unless defined $count;
        $done += $count;
    }
    return 1;
}

sub decide_in_python {
    pipe my $reader, my $writer or fail('hook: no pipe.');
    my $child = fork;
    fail('hook: no process.') unless defined $child;
    if (!$child) {
        close $reader;
        # The client waits until nobody holds its pipes any longer.
        close STDOUT;
        close STDERR;
        put($writer, $data);
        exit 0;
    }
    close $writer;
    open STDIN, '<&', $reader or fail('hook: no input.');
    close $reader;
    # Perl starts nothing while these are as somebody else set them; Python takes the path back.
    $ENV{METIER_HOOK_PATH} = $ENV{PATH} if defined $ENV{PATH};
    delete @ENV{qw(PATH IFS CDPATH ENV BASH_ENV)};
    $SIG{PIPE} = 'DEFAULT';
    # It outlives `exec`, and ends a Python that does not decide in time. That is no consent, either.
    alarm 30;
    my @socket = $path eq q() ? () : ($is_late ? "--late" : "--socket", $path);
    exec {$PYTHON} $PYTHON, @FLAGS, "-m", "metier.serve.client_hooks", $client, @socket;
    fail("hook: $PYTHON cannot be started.");
}

sub fail {
    put(\*STDERR, "metier $_[0] Run `metier doctor`.\n");
    exit 3;
}
