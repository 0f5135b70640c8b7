using BatchKit.Testing;
using BatchKit.Tests.Support;

namespace BatchKit.Tests.Buffering;

/// <summary>Scopes that hold output back for a limited time, and go on.</summary>
public sealed class ScopeLimitTests : IAsyncDisposable
{
    private static readonly TimeSpan Limit = TimeSpan.FromMilliseconds(100);

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingLogger _logger = new();
    private readonly OutputHandle _handle = Some.Connection();
    private readonly OutputBuffer _buffer;

    public ScopeLimitTests() =>
        _buffer = new OutputBuffer(_arrived, new OutputBufferOptions { MaxScopeAge = TimeSpan.FromSeconds(4) }, timeProvider: _clock, logger: _logger);

    public ValueTask DisposeAsync() => _buffer.DisposeAsync();

    [Fact]
    public void What_is_held_leaves_at_the_limit_since_its_first_message_and_the_scope_goes_on()
    {
        using var scope = _buffer.BeginBufferingScope(_handle, Limit);
        _clock.Advance(Limit * 3);
        foreach (var round in Enumerable.Range(0, 3))
        {
            _buffer.Write(_handle, "first");
            _clock.Advance(Limit / 2);
            _buffer.Write(_handle, "second");
            _clock.Advance((Limit / 2) - TimeSpan.FromTicks(1));
            Assert.Equal(round, _arrived.Batches.Count);

            _clock.Advance(TimeSpan.FromTicks(1));

            Assert.Equal(round + 1, _arrived.Batches.Count);
            Assert.Equal(2, _arrived.Batches[round].Messages.Count);
        }

        Assert.Equal(1, _buffer.GetStatistics().OpenScopes);
    }

    [Fact]
    public void What_is_held_leaves_at_the_limit_and_not_before_it_though_timers_fire_early()
    {
        _clock.TimerFaults = new TimerFaults { Early = TimeSpan.FromMilliseconds(3) };
        using var scope = _buffer.BeginBufferingScope(_handle, Limit);
        _buffer.Write(_handle, "line 0");
        _clock.Advance(Limit - TimeSpan.FromTicks(1));
        var before = _arrived.MessageCount;

        _clock.Advance(TimeSpan.FromTicks(1));

        Assert.Equal((0, 1), (before, _arrived.MessageCount));
    }

    [Fact]
    public async Task A_limit_with_a_part_of_a_millisecond_sets_the_timer_once()
    {
        var clock = new CuttingTimeProvider(_clock);
        await using var buffer = new OutputBuffer(_arrived, timeProvider: clock);
        using var scope = buffer.BeginBufferingScope(_handle, Limit + TimeSpan.FromTicks(5000));

        buffer.Write(_handle, "line 0");
        _clock.Advance(Limit + TimeSpan.FromMilliseconds(1));

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.InRange(clock.Changes, 1, 3);
    }

    [Fact]
    public void Closing_before_the_limit_sends_at_once()
    {
        using (_buffer.BeginBufferingScope(_handle, Limit))
            _buffer.Write(_handle, "line 0");

        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }

    [Fact]
    public void A_scope_without_a_limit_inside_holds_until_it_ends_and_the_limit_counts_from_there()
    {
        using var outer = _buffer.BeginBufferingScope(_handle, Limit);
        var inner = _buffer.BeginBufferingScope(_handle);
        _buffer.Write(_handle, "line 0");
        _clock.Advance(Limit * 5);
        var whileOpen = _arrived.MessageCount;
        inner.Dispose();
        _clock.Advance(Limit - TimeSpan.FromTicks(1));
        var beforeLimit = _arrived.MessageCount;

        _clock.Advance(TimeSpan.FromTicks(1));

        Assert.Equal((0, 0, 1), (whileOpen, beforeLimit, _arrived.MessageCount));
    }

    [Fact]
    public void A_scope_without_a_limit_outside_holds_until_it_ends()
    {
        using (_buffer.BeginBufferingScope(_handle))
        {
            using (_buffer.BeginBufferingScope(_handle, Limit))
            {
                _buffer.Write(_handle, "line 0");
                _clock.Advance(Limit * 5);
            }

            _clock.Advance(Limit * 5);
            Assert.Empty(_arrived.Texts);
        }

        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Of_several_limits_the_longest_counts(bool longestFirst)
    {
        using var first = _buffer.BeginBufferingScope(_handle, longestFirst ? Limit * 3 : Limit);
        using var second = _buffer.BeginBufferingScope(_handle, longestFirst ? Limit : Limit * 3);
        _buffer.Write(_handle, "line 0");
        _clock.Advance(Limit * 2);
        var before = _arrived.MessageCount;

        _clock.Advance(Limit);

        Assert.Equal((0, 1), (before, _arrived.MessageCount));
    }

    [Fact]
    public void A_limit_holds_though_a_scope_with_a_longer_one_closed_before()
    {
        using (_buffer.BeginBufferingScope(_handle, Limit * 100))
            _buffer.Write(_handle, "line 0");
        using var scope = _buffer.BeginBufferingScope(_handle, Limit);
        _buffer.Write(_handle, "line 1");

        _clock.Advance(Limit);

        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public void When_the_longer_of_two_limits_ends_the_shorter_one_counts_from_the_first_message()
    {
        var longer = _buffer.BeginBufferingScope(_handle, Limit * 100);
        using var shorter = _buffer.BeginBufferingScope(_handle, Limit);
        _buffer.Write(_handle, "line 0");
        _clock.Advance(Limit / 2);
        longer.Dispose();
        _clock.Advance((Limit / 2) - TimeSpan.FromTicks(1));
        var before = _arrived.MessageCount;

        _clock.Advance(TimeSpan.FromTicks(1));

        Assert.Equal((0, 1), (before, _arrived.MessageCount));
    }

    [Fact]
    public void When_the_longer_of_two_limits_ends_after_the_shorter_one_has_passed_all_leaves_at_once()
    {
        var longer = _buffer.BeginBufferingScope(_handle, Limit * 100);
        using var shorter = _buffer.BeginBufferingScope(_handle, Limit);
        _buffer.Write(_handle, "line 0");
        _clock.Advance(Limit * 2);
        var before = _arrived.MessageCount;

        longer.Dispose();

        Assert.Equal((0, 1), (before, _arrived.MessageCount));
    }

    [Fact]
    public void A_longer_limit_that_is_opened_later_holds_what_is_held_already()
    {
        using var shorter = _buffer.BeginBufferingScope(_handle, Limit);
        _buffer.Write(_handle, "line 0");
        using var longer = _buffer.BeginBufferingScope(_handle, Limit * 3);
        _clock.Advance(Limit * 2);
        var before = _arrived.MessageCount;

        _clock.Advance(Limit);

        Assert.Equal((0, 1), (before, _arrived.MessageCount));
    }

    [Fact]
    public void A_handles_own_limit_holds_though_an_ambient_one_is_longer()
    {
        using var ambient = _buffer.BeginBufferingScope(Limit * 100);
        _buffer.Write(_handle, "line 0");
        using var own = _buffer.BeginBufferingScope(_handle, Limit);

        _clock.Advance(Limit);

        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }

    [Fact]
    public void A_scope_with_a_limit_is_never_too_old()
    {
        using var scope = _buffer.BeginBufferingScope(_handle, Limit);
        using var ambient = _buffer.BeginBufferingScope(Limit);
        _buffer.Write(_handle, "line 0");

        _clock.Advance(TimeSpan.FromMinutes(5));

        Assert.Equal(2, _buffer.GetStatistics().OpenScopes);
        Assert.Empty(_logger.Lines);
    }

    [Fact]
    public void An_ambient_scope_with_a_limit_keeps_the_order_and_one_send_at_each_limit()
    {
        var room = Some.Group();
        using (_buffer.BeginBufferingScope(Limit))
        {
            for (var round = 1; round <= 3; round++)
            {
                _buffer.Write(room, "a");
                _buffer.Write(_handle, "x");
                _clock.Advance(Limit / 2);
                _buffer.Write(room, "b");
                _clock.Advance((Limit / 2) - TimeSpan.FromTicks(1));
                Assert.Equal(round - 1, _arrived.BatchesOfSends.Count);
                _clock.Advance(TimeSpan.FromTicks(1));
                Assert.Equal([.. Enumerable.Repeat(3, round)], _arrived.BatchesOfSends);
            }

            _buffer.Write(room, "the rest");
        }

        Assert.Equal([.. Enumerable.Repeat<string[]>(["a", "x", "b"], 3).SelectMany(static lines => lines), "the rest"], _arrived.Texts);
    }

    [Fact]
    public void The_limit_of_an_ambient_scope_counts_from_the_first_message_after_its_flush()
    {
        using var ambient = _buffer.BeginBufferingScope(Limit);
        _buffer.Write(_handle, "first");
        _clock.Advance(Limit / 2);
        _buffer.FlushAmbientScope();
        _buffer.Write(_handle, "second");
        _clock.Advance(Limit / 2);
        Assert.Equal(["first"], _arrived.Texts);

        _clock.Advance(Limit / 2);

        Assert.Equal(["first", "second"], _arrived.Texts);
    }

    [Fact]
    public void A_handles_own_scope_without_a_limit_holds_back_what_an_ambient_limit_would_send()
    {
        var other = Some.Connection();
        var own = _buffer.BeginBufferingScope(_handle);
        using var ambient = _buffer.BeginBufferingScope(Limit);
        _buffer.Write(_handle, "held");
        _buffer.Write(other, "sent");

        _clock.Advance(Limit);

        Assert.Equal(["sent"], _arrived.Texts);
        own.Dispose();
    }

    [Fact]
    public void An_ambient_scope_with_a_limit_keeps_the_order_though_a_handle_was_held_for_longer_before()
    {
        var room = Some.Group();
        using (_buffer.BeginBufferingScope(room, Limit * 100))
            _buffer.Write(room, "before");
        using var ambient = _buffer.BeginBufferingScope(Limit);
        _buffer.Write(room, "a");
        _buffer.Write(_handle, "x");
        _buffer.Write(room, "b");

        _clock.Advance(Limit);

        Assert.Equal(["before", "a", "x", "b"], _arrived.Texts);
    }

    [Fact]
    public void What_is_written_after_an_ambient_scope_was_ended_on_a_handle_stays_behind_what_was_written_before()
    {
        using var own = _buffer.BeginBufferingScope(_handle, Limit * 100);
        using var ambient = _buffer.BeginBufferingScope(Limit);
        _buffer.Write(_handle, "line 0");
        _buffer.EndBufferingScope(_handle);
        _buffer.Write(Some.Group(), "to another");
        _buffer.Write(_handle, "line 1");

        _clock.Advance(Limit);

        Assert.Equal(Some.Lines(2), _arrived.Texts.Where(static text => text != "to another"));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(-1)]
    [InlineData(-2)]
    [InlineData((24 * 60 * 60 * 1000) + 1)]
    public void A_limit_that_is_not_above_zero_or_above_a_day_is_refused(int milliseconds)
    {
        var limit = TimeSpan.FromMilliseconds(milliseconds);

        Assert.Throws<ArgumentOutOfRangeException>(() => _buffer.BeginBufferingScope(limit));
        Assert.Throws<ArgumentOutOfRangeException>(() => _buffer.BeginBufferingScope(_handle, limit));
        Assert.Equal(0, _buffer.GetStatistics().OpenScopes);
    }

    [Theory]
    [InlineData(typeof(IOutputBuffer), 2)]
    [InlineData(typeof(OutputBuffer), 2)]
    [InlineData(typeof(CollectingOutputBuffer), 2)]
    [InlineData(typeof(OutputBufferExtensions), 1)]
    public void A_number_in_the_place_of_a_limit_does_not_compile(Type type, int overloads)
    {
        var begins = type.GetMethods().Where(method => method.Name == nameof(IOutputBuffer.BeginBufferingScope)).ToArray();

        Assert.Equal(overloads, begins.Length);
        Assert.All(begins, begin =>
        {
            var types = begin.GetParameters().Select(parameter => parameter.ParameterType).ToArray();
            Assert.DoesNotContain(typeof(int), types[..(Array.IndexOf(types, typeof(TimeSpan?)) + 1)]);
            Assert.Contains(typeof(TimeSpan?), types);
        });
    }
}
