using System.Collections.Concurrent;
using BatchKit.Diagnostics;
using BatchKit.Transports;
using NATS.Client.Core;

namespace BatchKit.Nats;

/// <summary>Publishes frames over core NATS, which acknowledges none: what the server refuses it tells by an error of its own, later.</summary>
/// <remarks>The first frame for a subject is confirmed by a round trip, and so is each one after a refusal, until one is taken. The others take the subject's right for granted. Thread-safe.</remarks>
internal sealed class CorePublisher
{
    private static readonly Right Unknown = new(null, 0);
    private static readonly Right Granted = new(null, 0);

    // The server does not tell that it would take a subject again, and nothing more may be sent to it.
    private static readonly TimeSpan RefusalTime = TimeSpan.FromMinutes(1);

    private readonly NatsLink _link;
    private readonly TimeProvider _timeProvider;
    private readonly LogThrottle _throttle;

    // By subject: one for each node that was sent to, and that of all nodes.
    private readonly ConcurrentDictionary<string, Right> _rights = new(StringComparer.Ordinal);

    public CorePublisher(NatsLink link, TimeProvider timeProvider)
    {
        (_link, _timeProvider, _throttle) = (link, timeProvider, new LogThrottle(timeProvider));
        link.ServerFailed += Refuse;
    }

    /// <summary>Which frames the server refuses, in a sentence; null when it has refused none lately.</summary>
    public string? Fault => _rights.Values.FirstOrDefault(right => right.Refusal is not null && _timeProvider.GetElapsedTime(right.At) < RefusalTime)?.Refusal;

    /// <exception cref="FrameRefusedException">The server refused it, or the connection was lost before it was confirmed.</exception>
    public async ValueTask PublishAsync(string subject, ReadOnlyMemory<byte> frame, CancellationToken cancellationToken)
    {
        var right = _rights.GetOrAdd(subject, Unknown);
        try
        {
            await _link.Connection.PublishAsync(subject, frame, serializer: NatsRawSerializer<ReadOnlyMemory<byte>>.Default, cancellationToken: cancellationToken).ConfigureAwait(false);
            if (right == Granted)
                return;
            await _link.ConfirmAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is NatsException || (exception is OperationCanceledException && !cancellationToken.IsCancellationRequested))
        {
            throw new FrameRefusedException($"{_link.Target} did not take the frame: {FailureText.MessageOf(exception)}", exception);
        }

        if (!_rights.TryUpdate(subject, Granted, right) && _rights[subject].Refusal is { } refusal)
            throw new FrameRefusedException(refusal);
    }

    private void Refuse(object? sender, NatsServerErrorEventArgs change)
    {
        // Permissions Violation for Publish to "batchkit.all"
        if (change.Error.Split('"') is not [var start, var subject, ..] || !start.EndsWith("Publish to ", StringComparison.Ordinal) || !_rights.ContainsKey(subject))
            return;
        var refusal = $"{_link.Target} refused a message: {change.Error}.";
        _rights[subject] = new Right(refusal, _timeProvider.GetTimestamp());
        Log.MessageRefused(_link.Logger, _throttle, refusal);
    }

    // Compared by reference: each refusal is one of its own.
    private sealed class Right(string? refusal, long at)
    {
        public string? Refusal => refusal;

        public long At => at;
    }
}
