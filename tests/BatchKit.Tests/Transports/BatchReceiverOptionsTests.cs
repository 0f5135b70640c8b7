using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests.Transports;

public sealed class BatchReceiverOptionsTests
{
    public static TheoryData<string, Action<BatchReceiverOptions>> BrokenSettings => new()
    {
        { "BatchReceiverOptions.ProducerExpiry (-00:00:01) must be between 00:00:01 and 7.00:00:00.", options => options.ProducerExpiry = TimeSpan.FromSeconds(-1) },
        { "BatchReceiverOptions.MaxProducers (0) must be between 1 and 16777216.", options => options.MaxProducers = 0 },
        { "BatchReceiverOptions.RetryDelay (00:00:00) must be between 00:00:00.001 and 00:01:00.", options => options.RetryDelay = TimeSpan.Zero },
        { "BatchReceiverOptions.MaxRetryDelay (00:00:00) must be between 00:00:00.001 and 01:00:00.", options => options.MaxRetryDelay = TimeSpan.Zero },
        { "BatchReceiverOptions.MaxRetryDelay (00:00:00.0500000) must not be below RetryDelay (00:00:00.1000000).", options => options.MaxRetryDelay = TimeSpan.FromMilliseconds(50) },
        { "BatchReceiverOptions.DeliveryTimeout (00:00:00) must be between 00:00:00.010 and 1.00:00:00.", options => options.DeliveryTimeout = TimeSpan.Zero },
        { "BatchReceiverOptions.Limits.MaxBatches (0) must be between 1 and 2147483647.", options => options.Limits = new FrameLimits { MaxBatches = 0 } },
        { "BatchReceiverOptions.Limits must be set and not be empty.", options => options.Limits = null! },
    };

    [Theory]
    [MemberData(nameof(BrokenSettings))]
    public void A_setting_outside_its_range_stops_the_constructor_and_is_named_with_its_type_value_and_limits(string failure, Action<BatchReceiverOptions> breakIt)
    {
        var options = new BatchReceiverOptions();
        breakIt(options);

        var exception = Assert.Throws<OptionsValidationException>(() => new BatchReceiver(new CollectingTransport(), options));

        Assert.Contains(failure, exception.Failures);
    }
}
