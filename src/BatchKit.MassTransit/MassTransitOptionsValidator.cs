using Microsoft.Extensions.Options;

namespace BatchKit.MassTransit;

/// <summary>Checks the options by their attributes, in generated code.</summary>
[OptionsValidator]
internal sealed partial class MassTransitOptionsValidator : IValidateOptions<MassTransitOptions>;
