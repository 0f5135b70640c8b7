using System.Collections.Immutable;
using System.Globalization;
using System.Text;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Tests;

/// <summary>What callers expect of .NET: synchronous disposal, null refused, errors of asynchronous calls in their tasks, cultures, spans as state, and a wait that changes nothing.</summary>
public sealed class ApiTrapTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    /// <summary>What a write meets.</summary>
    public enum Fault
    {
        Stopped,
        Full,
        TooLarge,
        NoHandle,
        RouterThrows,
        CodecThrows,
    }

    [Fact]
    public void A_container_that_is_disposed_synchronously_drains_its_buffers()
    {
        var services = new ServiceCollection().AddLogging();
        services.AddBatchKit().AddRoute("default", _ => _arrived);
        using (var provider = services.BuildServiceProvider())
        {
            var buffer = provider.GetRequiredService<IOutputBuffer>();
            buffer.BeginBufferingScope(_handle);
            buffer.Write(_handle, "held");
        }

        Assert.Equal(["held"], _arrived.Texts);
    }

    [Fact]
    public async Task Disposals_of_both_kinds_are_one()
    {
        var buffer = new OutputBuffer(_arrived);
        buffer.Write(_handle, "line");

        buffer.Dispose();
        await buffer.DisposeAsync();
        buffer.Dispose();

        Assert.Throws<ObjectDisposedException>(() => buffer.Write(_handle, "too late"));
    }

    [Fact]
    public async Task A_null_text_is_refused_by_every_way_to_write()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);

        Assert.Throws<ArgumentNullException>(() => buffer.Write(_handle, (string)null!));
        Assert.Throws<ArgumentNullException>(() => buffer.TryWrite(_handle, (string)null!));
        Assert.Throws<ArgumentNullException>(void () => _ = buffer.WriteAsync(_handle, (string)null!).AsTask());

        Assert.Equal(0, buffer.GetStatistics().AcceptedMessages);
        buffer.Write(_handle, "");
        Assert.Equal([""], _arrived.Texts);
    }

    [Theory]
    [InlineData(Fault.Stopped, typeof(ObjectDisposedException))]
    [InlineData(Fault.Full, typeof(OutputOverflowException))]
    [InlineData(Fault.TooLarge, typeof(OutputOverflowException))]
    [InlineData(Fault.NoHandle, typeof(ArgumentException))]
    [InlineData(Fault.RouterThrows, typeof(NotSupportedException))]
    [InlineData(Fault.CodecThrows, typeof(NotSupportedException))]
    public async Task The_error_of_an_asynchronous_write_is_in_its_task(Fault fault, Type error)
    {
        var transport = new ScriptedTransport(_arrived);
        var options = new OutputBufferOptions { Overflow = OverflowPolicy.Fail, MaxBufferedBytes = 2048, MaxMessageBytes = 1024 };
        await using var buffer = new OutputBuffer([new OutputRoute("default", transport)], fault == Fault.RouterThrows ? new ThrowingRouter() : null, options, timeProvider: _clock);
        if (fault == Fault.Stopped)
            await buffer.StopAsync(CancellationToken.None).WithinDeadline();
        var underWay = fault == Fault.Full ? await FillAsync(transport, buffer) : null;

        var write = fault == Fault.CodecThrows
            ? new TypedOutput(buffer, new JsonMessageCodec(SomeJson.Default)).WriteAsync(_handle, new Unregistered(1)).AsTask()
            : buffer.WriteAsync(fault == Fault.NoHandle ? default : _handle, new byte[fault == Fault.TooLarge ? 1025 : 1000]).AsTask();

        Assert.IsType(error, await Record.ExceptionAsync(() => write));
        underWay?.Release();
    }

    [Fact]
    public async Task Values_are_formatted_for_the_culture_that_is_given()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        var german = (CultureInfo)CultureInfo.InvariantCulture.Clone();
        german.NumberFormat.NumberDecimalSeparator = ",";
        var number = 1.5;

        buffer.Write(_handle, german, $"{number}");
        Assert.True(buffer.TryWrite(_handle, CultureInfo.InvariantCulture, $"{number:0.00}", MessageHeader.Prompt));
        await buffer.WriteAsync(_handle, german, $"{number,6}");

        Assert.Equal(["1,5", "1.50", "   1,5"], _arrived.Texts);
    }

    [Fact]
    public async Task Values_are_formatted_by_the_formatter_of_the_provider_that_is_given()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        var provider = new AngleFormatter();
        var (number, text, none, plain) = (1.5, "é", (string?)null, new StringBuilder("plain"));
        var expected = string.Create(provider, $"{number:0.0} {text} {none,4}|{text,-5}|{plain}");
        provider.Questions = 0;

        buffer.Write(_handle, provider, $"{number:0.0} {text} {none,4}|{text,-5}|{plain}");
        Assert.True(buffer.TryWrite(_handle, provider, $"{number:0.0} {text} {none,4}|{text,-5}|{plain}"));
        await buffer.WriteAsync(_handle, provider, $"{number:0.0} {text} {none,4}|{text,-5}|{plain}");
        buffer.WriteLatest(_handle, key: 1, provider, $"{number:0.0} {text} {none,4}|{text,-5}|{plain}");
        using (var writer = buffer.BeginWriting(_handle))
            writer.Write(provider, $"{number:0.0} {text} {none,4}|{text,-5}|{plain}");

        Assert.Equal("<1.5> <é>   <>|<é>  |", expected);
        Assert.Equal(Enumerable.Repeat(expected, 5), _arrived.Texts);
        Assert.Equal(5, provider.Questions);
    }

    [Fact]
    public async Task An_encoder_may_have_a_span_as_its_state()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        ReadOnlySpan<char> text = stackalloc char[] { 'l', 'i', 'n', 'e' };

        buffer.Write(_handle, maxBytes: 12, text, static (destination, state) => Encoding.UTF8.GetBytes(state, destination));
        var isAccepted = buffer.TryWrite(_handle, maxBytes: 12, text, static (destination, state) => Encoding.UTF8.GetBytes(state[..2], destination));

        Assert.True(isAccepted);
        Assert.Equal(["line", "li"], _arrived.Texts);
    }

    [Fact]
    public async Task A_wait_until_all_is_settled_ends_no_scope_of_anyone()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        buffer.Write(_handle, "queued");
        await stalled.EnteredAsync();
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "held");

        var settled = buffer.WhenSettledAsync(_handle).AsTask();

        Assert.False(settled.IsCompleted);
        stalled.Release();
        await settled.WithinDeadline();
        Assert.Equal(["queued"], _arrived.Texts);
        Assert.True(buffer.WhenSettledAsync(_handle).IsCompletedSuccessfully);
        Assert.True(buffer.WhenSettledAsync(Some.Connection()).IsCompletedSuccessfully);
        await scope.DisposeAsync().WithinDeadline();
        Assert.Equal(["queued", "held"], _arrived.Texts);
    }

    [Fact]
    public async Task A_wait_until_all_is_settled_reports_what_was_lost_meanwhile()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        buffer.Write(_handle, "lost");
        await stalled.EnteredAsync();
        var settled = buffer.WhenSettledAsync(_handle).AsTask();

        stalled.Fail(new BatchSendException([BatchOutcome.Refused], "Refused."));

        Assert.Equal(1, (await Assert.ThrowsAsync<OutputDeliveryException>(() => settled.WithinDeadline())).LostMessages);
    }

    private async Task<StalledSend> FillAsync(ScriptedTransport transport, OutputBuffer buffer)
    {
        var stalled = transport.Stall();
        buffer.Write(_handle, new byte[1000]);
        await stalled.EnteredAsync();
        return stalled;
    }

    /// <summary>Puts values in angle brackets, and leaves this test out.</summary>
    private sealed class AngleFormatter : IFormatProvider, ICustomFormatter
    {
        public int Questions { get; set; }

        public object? GetFormat(Type? formatType)
        {
            Questions += formatType == typeof(ICustomFormatter) ? 1 : 0;
            return formatType == typeof(ICustomFormatter) ? this : null;
        }

        public string Format(string? format, object? arg, IFormatProvider? formatProvider) =>
            arg is StringBuilder ? null! : string.Create(CultureInfo.InvariantCulture, $"<{(arg as IFormattable)?.ToString(format, CultureInfo.InvariantCulture) ?? arg}>");
    }

    private sealed class ThrowingRouter : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => throw new NotSupportedException();
    }
}
