namespace BatchKit.Broadcast.Receiving;

/// <summary>Delays the reading of a client that sends faster than its limits. Used by the connection's reader only.</summary>
/// <remarks>
/// Two token buckets on the transport's clock, 16 bytes each. The framework's <c>TokenBucketRateLimiter</c> would read the system's clock, and cost each client about 400 bytes.
/// </remarks>
internal sealed class InputPace(InputLimits limits, TimeProvider timeProvider)
{
    // A delayed client continues with the tokens of this time: shorter delays would wake its reader more often.
    private const double SecondsPerDelay = 0.1;

    private TokenBucket _records = new(limits.RecordsPerSecond, limits.RecordBurst, timeProvider.GetTimestamp());
    private TokenBucket _bytes = new(limits.BytesPerSecond, limits.ByteBurst, timeProvider.GetTimestamp());

    /// <summary>Counts bytes that were read.</summary>
    public void NoteBytes(int bytes) => _bytes.Take(bytes, timeProvider);

    /// <summary>Takes as many records as may be delivered now.</summary>
    /// <returns>How many of them; zero when the client must wait.</returns>
    public int TakeRecords(int records) => _records.TakeAtMost(records, timeProvider);

    /// <summary>Completes when the client may be read; at once when it is within its limit.</summary>
    public ValueTask WhenMayReadAsync(Task closing) => _bytes.Available(timeProvider) > 0 ? default : DelayAsync(_bytes, closing);

    /// <summary>Completes when some of these records may be delivered.</summary>
    public ValueTask WhenMayDeliverAsync(Task closing) => DelayAsync(_records, closing);

    // A connection that is being closed is read to its end at once, and what it sent is discarded.
    private async ValueTask DelayAsync(TokenBucket bucket, Task closing)
    {
        if (closing.IsCompleted)
            return;
        using var delayed = new CancellationTokenSource();
        var delay = Task.Delay(bucket.TimeUntil(SecondsPerDelay, timeProvider), timeProvider, delayed.Token);
        await Task.WhenAny(delay, closing).ConfigureAwait(false);
        await delayed.CancelAsync().ConfigureAwait(false);
    }

    /// <summary>Tokens that come at a rate, up to a burst. It may go below zero: what was read can't be unread.</summary>
    private struct TokenBucket(int perSecond, int burst, long createdAt)
    {
        private double _tokens = burst;
        private long _countedAt = createdAt;

        public int Available(TimeProvider timeProvider)
        {
            Refill(timeProvider);
            return (int)Math.Max(0, _tokens);
        }

        public void Take(int tokens, TimeProvider timeProvider)
        {
            Refill(timeProvider);
            _tokens -= tokens;
        }

        /// <summary>Takes as many as there are, up to a number.</summary>
        public int TakeAtMost(int tokens, TimeProvider timeProvider)
        {
            var taken = Math.Min(tokens, Available(timeProvider));
            _tokens -= taken;
            return taken;
        }

        /// <summary>How long it takes until the tokens of the given time are available, but at least one.</summary>
        public readonly TimeSpan TimeUntil(double seconds, TimeProvider timeProvider)
        {
            var wanted = Math.Clamp(perSecond * seconds, 1, burst);
            var missing = TimeSpan.FromSeconds((wanted - _tokens) / perSecond);
            var left = missing - timeProvider.GetElapsedTime(_countedAt);

            // A timer may fire a little early, and a token that is missing then would cost a whole delay.
            return (left > TimeSpan.Zero ? left : TimeSpan.Zero) + TimeSpan.FromMilliseconds(1);
        }

        private void Refill(TimeProvider timeProvider)
        {
            var now = timeProvider.GetTimestamp();
            _tokens = Math.Min(burst, _tokens + (timeProvider.GetElapsedTime(_countedAt, now).TotalSeconds * perSecond));
            _countedAt = now;
        }
    }
}
