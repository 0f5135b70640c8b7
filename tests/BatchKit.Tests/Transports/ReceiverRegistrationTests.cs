using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Tests.Transports;

public sealed class ReceiverRegistrationTests
{
    private readonly ServiceCollection _services = new();

    [Fact]
    public async Task A_signer_and_a_check_of_groups_that_the_services_set_are_kept()
    {
        var signer = new FrameSigner(Some.RandomBytes(FrameSigner.MinKeyBytes));
        Func<ProducerId, OutputHandle, bool> isDeliveredLocally = static (_, _) => true;
        _services.Configure<BatchReceiverOptions>(options => (options.Signer, options.IsDeliveredLocally) = (signer, isDeliveredLocally));
        var builder = _services.AddBatchKit(static options => options.FrameKeys.Add(Some.RandomBytes(FrameSigner.MinKeyBytes)));
        await using var provider = _services.BuildServiceProvider();

        var options = builder.CreateReceiverOptions(provider);

        Assert.Same(signer, options.Signer);
        Assert.Same(isDeliveredLocally, options.IsDeliveredLocally);
    }

    [Fact]
    public void A_buffers_second_frame_receiver_is_refused()
    {
        var builder = _services.AddBatchKit("game").AddFrameReceiver(static _ => new CollectingTransport());

        var exception = Assert.Throws<InvalidOperationException>(() => builder.AddFrameReceiver(static _ => new CollectingTransport()));

        Assert.StartsWith("The output buffer 'game' receives from your broker already.", exception.Message, StringComparison.Ordinal);
    }
}
