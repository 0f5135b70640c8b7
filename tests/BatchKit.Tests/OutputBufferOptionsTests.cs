using BatchKit.Testing;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests;

public sealed class OutputBufferOptionsTests
{
    public static TheoryData<string, Action<OutputBufferOptions>> BrokenSettings => new()
    {
        { nameof(OutputBufferOptions.Node), options => options.Node = OutputHandle.MaxNode + 1 },
        { nameof(OutputBufferOptions.MaxBatchBytes), options => options.MaxBatchBytes = 0 },
        { nameof(OutputBufferOptions.MaxBatchMessages), options => options.MaxBatchMessages = 0 },
        { nameof(OutputBufferOptions.MaxMessageBytes), options => options.MaxMessageBytes = 0 },
        { nameof(OutputBufferOptions.MaxMessageBytes), options => options.MaxBufferedBytes = 64 * 1024 },
        { nameof(OutputBufferOptions.MaxBufferedBytes), options => options.MaxBufferedBytes = -1 },
        { nameof(OutputBufferOptions.Overflow), options => options.Overflow = (OverflowPolicy)99 },
        { nameof(OutputBufferOptions.Linger), options => options.Linger = TimeSpan.FromTicks(-1) },
        { nameof(OutputBufferOptions.Linger), options => options.MaxScopeAge = options.Linger = TimeSpan.FromSeconds(1) },
        { nameof(OutputBufferOptions.MaxSendBytes), options => options.MaxSendBytes = 255 },
        { nameof(OutputBufferOptions.MaxSendBatches), options => options.MaxSendBatches = 0 },
        { nameof(OutputBufferOptions.SendTimeout), options => options.SendTimeout = TimeSpan.Zero },
        { nameof(OutputBufferOptions.DeliveryTimeout), options => options.DeliveryTimeout = TimeSpan.FromDays(2) },
        { nameof(OutputBufferOptions.RetryDelay), options => options.RetryDelay = TimeSpan.Zero },
        { nameof(OutputBufferOptions.MaxRetryDelay), options => options.MaxRetryDelay = TimeSpan.FromMilliseconds(99) },
        { nameof(OutputBufferOptions.MaxScopeAge), options => options.MaxScopeAge = TimeSpan.Zero },
        { nameof(OutputBufferOptions.HandleIdleTimeout), options => options.HandleIdleTimeout = TimeSpan.Zero },
        { nameof(OutputBufferOptions.MaxSendBatches), options => options.MaxSendBatches = 65_537 },
        { nameof(OutputBufferOptions.MaxIdleHandles), options => options.MaxIdleHandles = -1 },
        { nameof(OutputBufferOptions.DrainTimeout), options => options.DrainTimeout = TimeSpan.FromHours(2) },
    };

    [Theory]
    [MemberData(nameof(BrokenSettings))]
    public void A_setting_outside_its_range_is_named(string setting, Action<OutputBufferOptions> breakIt)
    {
        var options = new OutputBufferOptions();
        breakIt(options);

        var exception = Assert.Throws<OptionsValidationException>(() => OptionsRules.ThrowIfInvalid(new OutputBufferOptionsValidator(), options, "game"));

        Assert.Equal("game", exception.OptionsName);
        Assert.All(exception.Failures, failure => Assert.Matches($@"^OutputBufferOptions\.\w+ \(.+\) must .+\. It is set for the output buffer 'game'\.$", failure));
        Assert.Contains($"OutputBufferOptions.{setting} (", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void An_error_names_the_setting_its_value_and_its_limits()
    {
        var options = new OutputBufferOptions { MaxBatchBytes = 100, SendTimeout = TimeSpan.Zero, Overflow = (OverflowPolicy)99, MaxBufferedBytes = 2000 };

        var exception = Assert.Throws<OptionsValidationException>(() => OptionsRules.ThrowIfInvalid(new OutputBufferOptionsValidator(), options, string.Empty));

        Assert.Equal(
        [
            "OutputBufferOptions.MaxBatchBytes (100) must be between 256 and 1073741824.",
            "OutputBufferOptions.MaxMessageBytes (1048576) must be at least 4 below MaxBufferedBytes (2000), or the buffer can never accept the largest message.",
            "OutputBufferOptions.Overflow (99) must be one of Wait, Fail, DropNewest, DropOldest.",
            "OutputBufferOptions.SendTimeout (00:00:00) must be between 00:00:00.010 and 01:00:00.",
        ], exception.Failures.Order(StringComparer.Ordinal));
    }

    [Fact]
    public void A_frame_key_that_is_null_or_too_short_is_named_without_its_bytes()
    {
        var options = new OutputBufferOptions { FrameKeys = { new byte[32], null!, new byte[31] } };

        var exception = Assert.Throws<OptionsValidationException>(() => new OutputBuffer(new CollectingTransport(), options));

        Assert.Equal(
        [
            "OutputBufferOptions.FrameKeys[1] (null) must have at least 32 bytes.",
            "OutputBufferOptions.FrameKeys[2] (31 bytes) must have at least 32 bytes.",
        ], exception.Failures);
    }

    [Fact]
    public void The_defaults_are_valid() => OptionsRules.ThrowIfInvalid(new OutputBufferOptionsValidator(), new OutputBufferOptions(), "");

    [Fact]
    public void Without_a_host_a_bad_setting_is_refused_too()
    {
        var options = new OutputBufferOptions { MaxBatchMessages = 0 };

        var exception = Assert.Throws<OptionsValidationException>(() => new OutputBuffer(new CollectingTransport(), options));

        Assert.Contains(nameof(OutputBufferOptions.MaxBatchMessages), exception.Message, StringComparison.Ordinal);
    }
}
