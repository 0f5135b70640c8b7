using Microsoft.Extensions.Options;

namespace BatchKit.Sessions;

/// <summary>Settings of the sessions: how much output waits for a client between two connections, and for how long. Each limit includes both ends.</summary>
/// <remarks>They are read once, when the <see cref="SessionTransport"/> is created.</remarks>
public sealed class SessionOptions
{
    // Two lines of a page in the background, whose timers run once a minute.
    private static readonly TimeSpan ShortestSilence = TimeSpan.FromMinutes(2);

    /// <summary>
    /// How long a session waits for its client; 2 min by default, from 1 s to 1 day. A session that was without a connection for as long ends, and what waited is counted as lost. One whose client acknowledges and
    /// has sent no session line for as long, and for 2 min, is taken for away, and its connection is closed.
    /// </summary>
    [TimeSpanRange("00:00:01", "1.00:00:00")]
    public TimeSpan AwayTimeout { get; set; } = TimeSpan.FromMinutes(2);

    /// <summary>The most sessions; 100,000 by default, at most 10,000,000. No further one opens: those that wait are kept.</summary>
    [NumberRange(1, 10_000_000)]
    public int MaxSessions { get; set; } = 100_000;

    /// <summary>
    /// The most bytes of one session's history: what its client has not acknowledged, or what waits while it is away; 256 KiB by default, from 1 KiB to 1 GiB. A message counts with its header and 128 bytes of memory. At the limit the oldest
    /// messages go, counted. Of a client that does not acknowledge, at most 256 KiB wait.
    /// </summary>
    /// <remarks>A connection gets at most 256 KiB ahead of its client's acknowledgements, and more with each of them: its queue (<c>BroadcastOptions.MaxQueuedBytes</c>) needs twice as much, or twice <see cref="MaxHistoryBytes"/> if that is less.</remarks>
    [NumberRange(1024, 1 << 30)]
    public int MaxHistoryBytes { get; set; } = 256 * 1024;

    /// <summary>The most bytes of all histories; 256 MiB by default, from 1 KiB to 1 TiB. A group's message counts once, with 32 bytes more for each member. At the limit the sessions with the most lose their oldest messages.</summary>
    [NumberRange(1024, 1L << 40)]
    public long MaxTotalBytes { get; set; } = 256L * 1024 * 1024;

    /// <summary>How long a client that acknowledges may say nothing.</summary>
    internal TimeSpan SilenceTimeout => AwayTimeout > ShortestSilence ? AwayTimeout : ShortestSilence;
}

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class SessionOptionsValidator : IValidateOptions<SessionOptions>;
