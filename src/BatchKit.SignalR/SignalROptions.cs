using System.ComponentModel.DataAnnotations;
using Microsoft.Extensions.Options;

namespace BatchKit.SignalR;

/// <summary>The settings of hubs whose output a buffer batches. They are read once, when the transport is created.</summary>
public sealed class SignalROptions
{
    /// <summary>The most bytes that may wait for one client; 4 MiB by default, from 4 KiB to 1 GiB. A client beyond it does not read: its connection is aborted, counted and logged.</summary>
    /// <remarks>What one send has for a client with at most half of the limit waiting is taken whole, however large it is; what another send waits for, as one of the backplane, does not count. Each send waits for a client that has more than half of the limit waiting and still reads, at most for <see cref="StuckAfter"/>.</remarks>
    [Range(4096, 1 << 30)]
    public int MaxQueuedBytes { get; set; } = 4 * 1024 * 1024;

    /// <summary>The longest that a send waits for a client that is far behind; 1 s by default, from 10 ms to 1 min. No send waits for one that has accepted nothing for as long.</summary>
    /// <remarks>This is the most that a slow client delays a send to others, and only when it has more than half of <see cref="MaxQueuedBytes"/> waiting.</remarks>
    [TimeSpanRange("00:00:00.010", "00:01:00")]
    public TimeSpan StuckAfter { get; set; } = TimeSpan.FromSeconds(1);

    /// <summary>How long a call for a connection that is not on this server waits for the server that has it; 30 s by default, from 10 ms to 10 min.</summary>
    /// <remarks>A client result then fails, because the connection does not exist; a change of a group has no effect. The client may take longer to answer: this is only the time until its server has the call.</remarks>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan ServerTimeout { get; set; } = TimeSpan.FromSeconds(30);
}

/// <summary>Checks the options, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class SignalROptionsValidator : IValidateOptions<SignalROptions>;
