using Microsoft.Extensions.Options;

namespace BatchKit.Broadcast;

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class BroadcastListenerOptionsValidator : IValidateOptions<BroadcastListenerOptions>
{
    private static readonly BroadcastListenerOptionsValidator Shared = new();

    public static void ThrowIfInvalid(BroadcastListenerOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(BroadcastListenerOptions), result.Failures);
    }
}
